package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/release"
)

// TestOtherCommands checks what guides have people type besides tsmon: requests get an
// answer from a server, targets, folders, tests and files exist, and what is said to other
// programs is what is theirs: the unit, the image, the paths in a bucket. A program that
// nobody checks is an error.
func TestOtherCommands(t *testing.T) {
	c := newCommandCheck(t)
	checks := map[string]func(words []string) string{
		"make": c.make, "go": c.golang, "curl": c.curl, "systemctl": c.systemctl, "docker": c.docker, "skopeo": c.skopeo,
		"minisign": c.minisign, "mc": c.mc, "aws": c.aws, "ssh-keygen": c.sshKeygen, "npm": c.npm, "openssl": c.openssl,
	}
	seen := map[string]int{}
	for _, guide := range documents(t) {
		for _, line := range othersIn(read(t, guide)) {
			words, err := split(line)
			if err != nil || len(words) == 0 {
				t.Errorf("%s: %s: %v", guide, line, err)
				continue
			}
			check := checks[words[0]]
			if check == nil {
				t.Errorf("%s: %s: nothing checks %s", guide, line, words[0])
				continue
			}
			seen[words[0]]++
			if problem := check(words[1:]); problem != "" {
				t.Errorf("%s: %s: %s", guide, line, problem)
			}
		}
	}
	for name := range checks {
		if seen[name] == 0 {
			t.Errorf("no guide has %s", name)
		}
	}
}

var (
	// noCommands begin lines of blocks that are no commands.
	noCommands = []string{"const", "fn", "expected", "for", "done", "tsmon"}
	// before stands in front of a command: variables, loops, another machine.
	before = regexp.MustCompile(`^((until|sudo|ssh "\$host"|[A-Z][A-Z0-9_]*=[^ ($]*(\$PWD[^ ]*)?) +)+`)
	// assigned is the command whose output a variable gets.
	assigned = regexp.MustCompile(`^[A-Z_]+=\$\((.*)\)`)
	inline   = regexp.MustCompile("`((?:systemctl|mc|aws|curl|docker|make|go) [^`]+)`")
)

// othersIn returns the lines of a guide that are commands of other programs: those of
// indented blocks and of blocks without a language, and those in the text.
func othersIn(guide string) (lines []string) {
	fenced, blank := false, true
	for line := range strings.Lines(strings.ReplaceAll(guide, "\\\n", " ")) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		text := strings.TrimSpace(line)
		block := !fenced && strings.HasPrefix(line, "    ") && blank
		blank = text == "" || block
		if fenced || text == "" {
			continue
		}
		if block {
			if got := assigned.FindStringSubmatch(text); got != nil {
				text = got[1]
			}
			text = before.ReplaceAllString(text, "")
			first, _, _ := strings.Cut(text, " ")
			if regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(first) && !slices.Contains(noCommands, first) {
				lines = append(lines, text)
			}
		}
	}
	for _, match := range inline.FindAllStringSubmatch(strings.ReplaceAll(guide, "\n", " "), -1) {
		lines = append(lines, match[1])
	}
	return lines
}

// commandCheck checks commands. Its methods return what is wrong, or nothing.
type commandCheck struct {
	t        *testing.T
	server   string // a server of both sides, whose channel stable can go back
	login    []byte // what demo.json is there
	makefile string
	unit     string
	image    string
}

func newCommandCheck(t *testing.T) *commandCheck {
	t.Helper()
	w := apitest.Embedded(t)
	d := w.Desk(t)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		d.PublishWith(t, version, func(*release.PublishOptions) {})
	}
	login, err := json.Marshal(w.Eva)
	if err != nil {
		t.Fatal(err)
	}
	return &commandCheck{t: t, server: w.Serve(t).URL, login: login, makefile: read(t, "../../Makefile"),
		unit: read(t, "packaging/tsmon.service"), image: read(t, "packaging/image.go")}
}

func (c *commandCheck) make(words []string) string {
	if !strings.Contains(c.makefile, "\n"+words[0]+":") {
		return "the Makefile has no " + words[0]
	}
	return ""
}

// golang looks for folders, and for tests that -run names.
func (c *commandCheck) golang(words []string) string {
	run := slices.Index(words, "-run")
	for i, word := range words {
		if folder, ours := strings.CutPrefix(word, "./"); ours && folder != "..." {
			folder = path.Join("../..", folder)
			tests, _ := filepath.Glob(folder + "/*_test.go") // the pattern is good
			if _, err := os.Stat(folder); err != nil {
				return err.Error()
			}
			if run > 0 && i < run && !slices.ContainsFunc(tests, func(file string) bool { return strings.Contains(read(c.t, file), "\nfunc "+words[run+1]) }) {
				return folder + " has no " + words[run+1]
			}
		}
	}
	return ""
}

// curl sends the request to the server of the test.
func (c *commandCheck) curl(words []string) string {
	method, address, header, body := http.MethodGet, "", http.Header{}, []byte(nil)
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "-s", "-fs":
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-d":
			i++
			method, body = http.MethodPost, []byte(words[i])
			if words[i] == "@demo/demo.json" {
				body = c.login
			}
		default:
			address = words[i]
		}
	}
	at, err := url.Parse("http://" + strings.ReplaceAll(strings.TrimPrefix(address, "http://"), "$host", "localhost"))
	if err != nil || at.Port() != "8080" {
		return "the address is not that of a server"
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server+at.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header = header
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "the server answers " + answer.Status
	}
	return ""
}

// systemctl looks whether the unit can do what it is told to.
func (c *commandCheck) systemctl(words []string) string {
	needs := map[string]string{"enable": "\n[Install]", "reload": "\nExecReload=", "restart": "\nExecStart=", "edit": "\n[Service]"}[words[0]]
	if needs == "" || !strings.Contains(c.unit, needs) || words[len(words)-1] != "tsmon" {
		return "tsmon.service has no " + strings.TrimSpace(needs)
	}
	return ""
}

const imageName = "registry.example.com/tsmon:0.1.0"

// docker looks whether the image has the folder, the port and the user that it is run with;
// that it runs on a read-only file system is a test of the packages.
func (c *commandCheck) docker(words []string) string {
	for flag, said := range map[string]string{"-v": `dataFolder = "` + after(words, "-v", "tsmon:"), "-p": "TSMON_LISTEN=0.0.0.0:" + after(words, "-p", "8080:")} {
		if !strings.Contains(c.image, said) {
			return flag + ": the image has no " + said
		}
	}
	variable, _, _ := strings.Cut(after(words, "-e", ""), "=")
	if !strings.Contains(read(c.t, "reference/settings.md"), "`"+variable+"`") {
		return "there is no setting " + variable
	}
	if words[0] != "run" || !slices.Contains(words, "--read-only") || words[len(words)-1] != imageName {
		return "it does not run the image that skopeo copies"
	}
	return ""
}

// after returns the word after a flag, without a prefix; it is ! without the prefix.
func after(words []string, flag, prefix string) string {
	i := slices.Index(words, flag)
	if i < 0 || i+1 == len(words) {
		return "!"
	}
	rest, found := strings.CutPrefix(words[i+1], prefix)
	if !found {
		return "!"
	}
	return rest
}

func (c *commandCheck) skopeo(words []string) string {
	if words[0] != "copy" || !slices.Contains(words, "oci-archive:tsmon_0.1.0_image.tar") || words[len(words)-1] != "docker://"+imageName {
		return "it does not copy the image that make dist writes"
	}
	return ""
}

func (c *commandCheck) minisign(words []string) string {
	if words[0] != "-V" || after(words, "-m", "") != "tsmon_0.1.0_linux_amd64.tar.gz" {
		return "it does not verify what make dist writes"
	}
	return ""
}

// mc and aws name folders of channels and of releases, or take the policy of the guide,
// which a test gives to MinIO.
func (c *commandCheck) mc(words []string) string {
	line := strings.Join(words, " ")
	for _, good := range []string{"cp latest.json ALIAS/releases/desktop/stable/latest.json", "anonymous set download ALIAS/releases/desktop/stable", "anonymous set-json policy.json ALIAS/releases", "version enable ALIAS/releases"} {
		if line == good {
			return ""
		}
	}
	return "is not one of those that are known to work"
}

func (c *commandCheck) aws(words []string) string {
	if strings.Join(words, " ") != "s3api put-bucket-policy" {
		return "is not one of those that are known to work"
	}
	return ""
}

// sshKeygen wants the call that TestSSHKeygenVerifies of signing makes.
func (c *commandCheck) sshKeygen(words []string) string {
	if strings.Join(words, " ") != "-Y verify -f allowed_signers -I ann -n tsmon-log -s entry.sig" {
		return "is not what a test runs"
	}
	return ""
}

// npm installs what the guide's JavaScript imports.
func (c *commandCheck) npm(words []string) string {
	script := listings(read(c.t, applicationGuide))["src/updates.js"]
	var missing []string
	for _, match := range regexp.MustCompile(`from '(@[a-z-]+/[a-z-]+)`).FindAllStringSubmatch(script, -1) {
		if !slices.Contains(words, match[1]) {
			missing = append(missing, match[1])
		}
	}
	if words[0] != "install" || len(words) != 4 || len(missing) > 0 {
		return "updates.js imports " + strings.Join(missing, ", ")
	}
	return ""
}

func (c *commandCheck) openssl(words []string) string {
	if strings.Join(words, " ") != "rand -base64 32" {
		return "it makes no secret"
	}
	return ""
}
