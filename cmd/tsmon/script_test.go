package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/longtest"
	"tsmon/store/servertest"
)

// TestScripts runs the scripts in testdata/script, which contain what a user could type. Scripts
// named release-* run on a directory and on MinIO, those named minio-* only on MinIO, and the
// others only on a directory. Of those that run on both, every third runs on MinIO, and in a long
// run all of them.
//
// In a script TSMON_STORAGE, TSMON_TRUSTED_KEYS and TAURI_SIGNING_PRIVATE_KEY are
// set. $VECTORS is the folder of keys and signatures of other tools, $CONTENT the folder of a
// tenant's file, and $GUIDES the folder of the checkout. The clocks of commands and of the store
// are ahead of now by $LATER, and the clocks of commands differ from the store's by $SKEW. On MinIO
// $MINIO is its address and $MC its client, to which ALIAS means that server.
// These commands exist besides those of testscript:
//
//	exits CODE PROGRAM ARG…     run it and require that exit code
//	fails CODE PROGRAM ARG…     likewise, with nothing on stdout, and an error:
//	                            and a hint: line at the end of stderr
//	within DURATION COMMAND…    exits or fails, within that time
//	interrupt PATTERN PROGRAM…  send SIGINT once its output matches; require exit
//	                            code 1
//	bundles VERSION DIR [NAME…] create bundles whose content depends on version and
//	                            name only
//	json FILE PATH [VALUE]      compare a member, such as 0.offer.url; -1 is the
//	                            last element, len the length; ! json: it is absent
//	serve [FLAG…]               start tsmon serve, set TSMON_PUBLIC_URL and SERVER; a second time,
//	                            stop it first and start it at the same address
//	typed LINE [OLD=>NEW…]      run a line of a guide as a shell does, with NEW in place
//	                            of OLD; a server goes on beside the script
//	member FILE PATH TO         write the text of a member into a file
//	follows TEXT                require that the last output has a hint with that text,
//	                            where … stands for anything;
//	                            the commands after it do what it says, see TestHints
//	obey FILE PATH [DIR]        run the command line that a member holds, with DIR in
//	                            place of the word DIR
//	public                      let anybody read the storage, like a public bucket, and set
//	                            TSMON_PUBLIC_URL (on MinIO, in scripts named release-*)
//	web DIR                     serve files at $WEB; /status/N answers with that
//	                            status, /stall/… begins and never ends; the file
//	                            requests lists the requests
//	snapshot                    record what the storage holds
//	unchanged [PREFIX…]         compare it, or the keys with a prefix
//	[!] stored KEY…             look for objects in the storage
//	fetch KEY FILE, put FILE KEY  copy objects without the program
//	lose KEY…                   remove objects likewise
//	load [-json] NAME FILE      set a variable to the content of a file, with
//	                            -json escaped for a JSON string
//	expand FILE…                replace $variables in files
//	base64 [-d] FROM TO         encode or decode a file
//	grow FILE BYTES             append that many zero bytes
//	mode FILE MODE              compare permissions, in octal
//	tmpfs DIR SIZE              mount a file system of that size there
//	needs PROGRAM               skip without it
//
// The condition [minio] holds on MinIO.
//
// A script is skipped if something is missing that tmpfs or needs require. If TSMON_TEST_REAL is 1,
// it fails instead.
func TestScripts(t *testing.T) {
	t.Parallel()
	t.Run("dir", func(t *testing.T) {
		t.Parallel()
		runScripts(t, nil, func(name string) bool { return !strings.HasPrefix(name, "minio-") })
	})
	t.Run("minio", func(t *testing.T) {
		t.Parallel()
		share, long := longtest.Chosen(t)
		if !long {
			share = longtest.Third
		}
		runScripts(t, servertest.SharedMinIO(t), onMinIO(share.Has))
	})
}

// runScripts runs the wanted scripts, on a server if it is not nil.
func runScripts(t *testing.T, server *servertest.MinIO, wanted func(name string) bool) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return !wanted(filepath.Base(file)) })
	testscript.Run(t, testscript.Params{
		Files:              files,
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return setUp(env, server) },
		Cmds:               scriptCommands,
		Condition: func(name string) (bool, error) {
			if name != "minio" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return server != nil, nil
		},
	})
}

var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"exits":     positive(2, scriptExits),
	"fails":     positive(2, scriptFails),
	"within":    positive(4, scriptWithin),
	"interrupt": positive(2, scriptInterrupt),
	"bundles":   positive(2, scriptBundles),
	"json":      scriptJSON,
	"member":    positive(3, scriptMember),
	"obey":      positive(2, scriptObey),
	"follows":   positive(1, scriptFollows),
	"serve":     positive(0, scriptServe),
	"typed":     positive(1, scriptTyped),
	"public":    positive(0, scriptPublic),
	"web":       positive(1, scriptWeb),
	"snapshot":  positive(0, scriptSnapshot),
	"unchanged": positive(0, scriptUnchanged),
	"stored":    scriptStored,
	"fetch":     positive(2, scriptFetch),
	"put":       positive(2, scriptPut),
	"lose":      positive(1, scriptLose),
	"load":      positive(2, scriptLoad),
	"expand":    positive(1, scriptExpand),
	"base64":    positive(2, scriptBase64),
	"grow":      positive(2, scriptGrow),
	"mode":      positive(2, scriptMode),
	"tmpfs":     positive(2, scriptTmpfs),
	"needs":     positive(1, scriptNeeds),
}

// positive is a command with at least n arguments that can't be negated.
func positive(n int, run func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < n {
			ts.Fatalf("wrong arguments; see TestScripts")
		}
		run(ts, args)
	}
}

// script is the state of one script.
type script struct {
	t      testscript.T
	server *servertest.MinIO // nil on a directory
	before map[string]string // what snapshot saw
	serves *exec.Cmd         // tsmon serve, nil if it was not started
	listen string            // its address
}

type scriptKey struct{}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

func setUp(env *testscript.Env, server *servertest.MinIO) error {
	vectors, err := filepath.Abs("../../signing/testdata")
	if err != nil {
		return err
	}
	content, err := filepath.Abs("testdata/content")
	if err != nil {
		return err
	}
	storage := filepath.Join(env.WorkDir, "store")
	if server != nil {
		storage = server.URL("desktop/" + filepath.Base(env.WorkDir))
		login := url.URL{Scheme: "http", User: url.UserPassword(server.AccessKey, server.SecretKey), Host: strings.TrimPrefix(server.Endpoint, "http://")}
		env.Vars = append(append(env.Vars, server.Env()...), "MINIO="+server.Endpoint, "MC_HOST_ALIAS="+login.String(), "MC="+cmp.Or(os.Getenv("TSMON_TEST_MC"), "TSMON_TEST_MC"))
	}
	public, err := os.ReadFile(filepath.Join(vectors, "minisign", "unencrypted.pub"))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(public))
	env.Values[scriptKey{}] = &script{t: env.T(), server: server}
	env.Vars = append(env.Vars,
		"HOME="+filepath.Join(env.WorkDir, "home"),
		"AWS_EC2_METADATA_DISABLED=true",
		"VECTORS="+vectors,
		"CONTENT="+content,
		"GUIDES="+filepath.Join(content, "..", "..", "..", ".."),
		"TSMON_STORAGE="+storage,
		"TSMON_TRUSTED_KEYS="+fields[len(fields)-1],
		"TAURI_SIGNING_PRIVATE_KEY="+filepath.Join(vectors, "minisign", "unencrypted.key"),
	)
	return nil
}

// inherited are the variables of programs that run beside a script.
var inherited = []string{
	"PATH", "HOME", "TMPDIR", "TSMON_CONFIG", "TSMON_STORAGE", "TSMON_PUBLIC_URL", "TSMON_TRUSTED_KEYS", "TAURI_SIGNING_PRIVATE_KEY",
	"TSMON_METRICS_KEY", "AWS_EC2_METADATA_DISABLED", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
}

// beside returns a program to run beside the script, in its environment.
func beside(ts *testscript.TestScript, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range inherited {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

func scriptExits(ts *testscript.TestScript, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// endOfStderr matches an error and its hint at the end.
var endOfStderr = regexp.MustCompile(`(?:^|\n)error: [^A-Z\s].*\nhint: [^A-Z\s].*\n$`)

func scriptFails(ts *testscript.TestScript, args []string) {
	scriptExits(ts, args)
	stderr := ts.ReadFile("stderr")
	switch {
	case ts.ReadFile("stdout") != "":
		ts.Fatalf("a failure wrote to stdout")
	case !endOfStderr.MatchString(stderr):
		ts.Fatalf("stderr does not end in an error: and a hint: line")
	case strings.Count(stderr, "error: ") != 1 || strings.Count(stderr, "hint: ") != 1:
		ts.Fatalf("stderr has more than one error: or hint:")
	}
}

func scriptWithin(ts *testscript.TestScript, args []string) {
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	start := time.Now()
	switch args[1] {
	case "exits":
		scriptExits(ts, args[2:])
	case "fails":
		scriptFails(ts, args[2:])
	default:
		ts.Fatalf("within takes exits or fails, not %s", args[1])
	}
	if took := time.Since(start); took > limit {
		ts.Fatalf("it took %v", took)
	}
}

func scriptInterrupt(ts *testscript.TestScript, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	cmd := beside(ts, args[1], args[2:]...)
	var once sync.Once
	signalled := false
	watch := func(output []byte) {
		if pattern.Match(output) {
			once.Do(func() { signalled = cmd.Process.Signal(syscall.SIGINT) == nil })
		}
	}
	cmd.Stdout, cmd.Stderr = &watched{to: ts.Stdout(), watch: watch}, &watched{to: ts.Stderr(), watch: watch}
	ts.Check(cmd.Start())
	_ = cmd.Wait() // the exit code is checked
	if code := cmd.ProcessState.ExitCode(); !signalled || code != cli.ExitFailed {
		ts.Fatalf("signalled: %v, exit code %d, want %d", signalled, code, cli.ExitFailed)
	}
}

// watched calls watch with all output after each write.
type watched struct {
	to    io.Writer
	seen  []byte
	watch func(output []byte)
}

func (w *watched) Write(p []byte) (int, error) {
	w.seen = append(w.seen, p...)
	w.watch(w.seen)
	return w.to.Write(p)
}

func scriptBundles(ts *testscript.TestScript, args []string) {
	version, folder, names := args[0], ts.MkAbs(args[1]), args[2:]
	if len(names) == 0 {
		names = []string{"App_" + version + "_x64_en-US.msi.zip", "App_universal.app.tar.gz", "App_" + version + "_amd64.AppImage.tar.gz"}
	}
	for _, name := range names {
		content := make([]byte, 5000)
		rand.NewChaCha8(sha256.Sum256([]byte(version + name))).Read(content)
		path := filepath.Join(folder, filepath.FromSlash(name))
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, content, 0o644))
	}
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 || neg && len(args) == 3 {
		ts.Fatalf("wrong arguments; see TestScripts")
	}
	got, found := memberOf(ts, args[0], args[1])
	switch {
	case neg && found:
		ts.Fatalf("%s has %s: %s", args[0], args[1], got)
	case !neg && !found:
		ts.Fatalf("%s has no %s", args[0], args[1])
	case len(args) == 3 && got != args[2]:
		ts.Fatalf("%s is %s, want %s", args[1], got, args[2])
	}
}

// memberOf finds a member in a file, which may hold a value a line.
func memberOf(ts *testscript.TestScript, file, path string) (text string, found bool) {
	var documents []any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	dec.UseNumber()
	for {
		var v any
		err := dec.Decode(&v)
		if err == io.EOF {
			break
		}
		ts.Check(err)
		documents = append(documents, v)
	}
	var value any = documents
	if len(documents) == 1 {
		value = documents[0]
	}
	return member(value, strings.Split(path, "."))
}

func scriptMember(ts *testscript.TestScript, args []string) {
	text, found := memberOf(ts, args[0], args[1])
	if !found {
		ts.Fatalf("%s has no %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text+"\n"), 0o644))
}

func scriptFollows(ts *testscript.TestScript, args []string) {
	output := ts.ReadFile("stderr") + ts.ReadFile("stdout")
	for part := range strings.SplitSeq(strings.Join(args, " "), "…") { // something is filled in there
		_, rest, found := strings.Cut(output, part)
		if !found || len(args) != 1 {
			ts.Fatalf("the output has no hint with %q", part)
		}
		output = rest
	}
}

func scriptObey(ts *testscript.TestScript, args []string) {
	line, found := memberOf(ts, args[0], args[1])
	words := strings.Fields(line)
	if !found || len(words) < 2 {
		ts.Fatalf("%s has no command line %s", args[0], args[1])
	}
	ts.Logf("> %s", line)
	for i, word := range words {
		if word == "DIR" && len(args) > 2 {
			words[i] = args[2]
		}
	}
	ts.Check(ts.Exec(words[0], words[1:]...))
}

// member finds the value at a path, as text: strings as they are, everything
// else as JSON.
func member(value any, path []string) (text string, found bool) {
	if len(path) == 0 {
		if s, ok := value.(string); ok {
			return s, true
		}
		data, err := json.Marshal(value)
		return string(data), err == nil
	}
	switch v := value.(type) {
	case map[string]any:
		if next, ok := v[path[0]]; ok {
			return member(next, path[1:])
		}
	case []any:
		if path[0] == "len" {
			return strconv.Itoa(len(v)), true
		}
		i, err := strconv.Atoi(path[0])
		if i < 0 {
			i += len(v)
		}
		if err == nil && i >= 0 && i < len(v) {
			return member(v[i], path[1:])
		}
	}
	return "", false
}

func scriptLoad(ts *testscript.TestScript, args []string) {
	if args[0] == "-json" && len(args) == 3 {
		quoted, err := json.Marshal(ts.ReadFile(args[2]))
		ts.Check(err)
		ts.Setenv(args[1], strings.Trim(string(quoted), `"`))
		return
	}
	ts.Setenv(args[0], strings.TrimRight(ts.ReadFile(args[1]), "\n"))
}

func scriptExpand(ts *testscript.TestScript, args []string) {
	for _, file := range args {
		text := os.Expand(ts.ReadFile(file), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o644))
	}
}

func scriptBase64(ts *testscript.TestScript, args []string) {
	decode := args[0] == "-d"
	files := args[len(args)-2:]
	in := []byte(ts.ReadFile(files[0]))
	out := []byte(base64.StdEncoding.EncodeToString(in))
	if decode {
		var err error
		out, err = base64.StdEncoding.Strict().DecodeString(string(in))
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(files[1]), out, 0o644))
}

func scriptGrow(ts *testscript.TestScript, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()+n))
}

func scriptMode(ts *testscript.TestScript, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

func scriptTmpfs(ts *testscript.TestScript, args []string) {
	folder := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(folder, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+args[1], "tmpfs", folder).CombinedOutput(); err != nil {
		unavailable(ts, fmt.Sprintf("no tmpfs can be mounted: %v %s", err, out))
	}
	ts.Defer(func() {
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			scriptOf(ts).t.Fatal("umount: ", err, " ", string(out))
		}
	})
}

func scriptNeeds(ts *testscript.TestScript, args []string) {
	if _, err := exec.LookPath(args[0]); err != nil {
		unavailable(ts, "there is no "+args[0])
	}
}

func unavailable(ts *testscript.TestScript, why string) {
	if os.Getenv("TSMON_TEST_REAL") == "1" {
		ts.Fatalf("%s", why)
	}
	scriptOf(ts).t.Skip(why)
}
