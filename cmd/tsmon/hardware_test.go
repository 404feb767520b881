package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tsmon/release"
	"tsmon/store/servertest"
)

// hardware is an agent with a hardware token, a FIDO authenticator.
type hardware struct {
	agent.Agent // nil: nothing else is asked of it
	sign        func(data []byte) []byte
	public      ssh.PublicKey
	untouched   atomic.Bool // its signatures say that nobody touched it
	counter     atomic.Uint32
}

const application = "ssh:"

// newToken starts an agent with a token of an sk-ssh-ed25519 key, and returns the path of its
// socket.
func newToken(t *testing.T) (k *hardware, socket string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k = &hardware{sign: func(data []byte) []byte { return ed25519.Sign(private, data) }}
	return k, k.serve(t, ssh.Marshal(struct {
		Name        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, application}))
}

// newECDSAToken is newToken of an sk-ecdsa-sha2-nistp256 key.
func newECDSAToken(t *testing.T) (k *hardware, socket string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	k = &hardware{sign: func(data []byte) []byte {
		digest := sha256.Sum256(data)
		r, s, err := ecdsa.Sign(rand.Reader, private, digest[:])
		if err != nil {
			return nil // which verifies nowhere
		}
		return ssh.Marshal(struct{ R, S *big.Int }{r, s})
	}}
	return k, k.serve(t, ssh.Marshal(struct {
		Name, Curve string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKECDSA256, "nistp256", point, application}))
}

// serve answers for the token with a public key.
func (k *hardware) serve(t *testing.T, public []byte) (socket string) {
	t.Helper()
	var err error
	if k.public, err = ssh.ParsePublicKey(public); err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "agent") // the path of a socket has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket = filepath.Join(folder, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = agent.ServeAgent(k, conn)
				_ = conn.Close()
			}()
		}
	}()
	return socket
}

func (k *hardware) List() ([]*agent.Key, error) {
	return []*agent.Key{{Format: k.public.Type(), Blob: k.public.Marshal(), Comment: "token"}}, nil
}

// Sign signs as a FIDO authenticator does: the digest of the application, whether it was
// touched, a counter, and the digest of the data.
func (k *hardware) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	if string(key.Marshal()) != string(k.public.Marshal()) {
		return nil, errors.New("not a key of this token")
	}
	var said struct {
		Flags   byte
		Counter uint32
	}
	if said.Counter = k.counter.Add(1); !k.untouched.Load() {
		said.Flags = 1
	}
	app, message := sha256.Sum256([]byte(application)), sha256.Sum256(data)
	signed := append(append(app[:], ssh.Marshal(said)...), message[:]...)
	return &ssh.Signature{Format: k.public.Type(), Blob: k.sign(signed), Rest: ssh.Marshal(said)}, nil
}

// TestTokenAndCI: stable moves only with two signatures, of a CI job and of a person with a hardware
// token. Then another person replaces the first.
func TestTokenAndCI(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		servertest.Missing(t, "ssh-keygen: "+err.Error())
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		plain := k.env
		ann, socket := newToken(t)
		annLine := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(ann.public)))
		ci, ciLine := operatorKey(t)
		bob, bobLine := operatorKey(t)
		settings := filepath.Join(t.TempDir(), "tsmon.yaml")
		configure := func(operators string) {
			t.Helper()
			text := "operators:\n" + operators + "channels: {stable: {approvals: 2}}\n"
			if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		as := func(variable string) {
			k.env = append(plain[:len(plain):len(plain)], "TSMON_CONFIG="+settings, variable)
		}
		token, job := "SSH_AUTH_SOCK="+socket, "TSMON_OPERATOR_KEY="+ci
		shows := func(want string) {
			t.Helper()
			if got := k.verified(t, "stable"); got != want {
				t.Errorf("stable shows %s, want %s", got, want)
			}
		}
		publish := func(version string) (out string) {
			t.Helper()
			return k.must(t, "release", "publish", "--no-probe", "--version", version, bundles(t, version, 1000))
		}
		configure("  ann: " + annLine + "\n  ci: " + ciLine + "\n")

		// The job leaves a plan, the person touches the token.
		as(job)
		if out := publish("1.0.0"); !strings.Contains(out, "by one of: ann\n") {
			t.Fatal(out)
		}
		as(token)
		ann.untouched.Store(true)
		if _, stderr, code := k.tsmon(t, "plan", "approve", k.onlyPlan(t), "--no-probe"); code == 0 {
			t.Errorf("approved by a token that nobody touched: %s", stderr)
		}
		if out := k.must(t, "plan", "list"); !strings.Contains(out, "1 of 2") {
			t.Error(out)
		}
		ann.untouched.Store(false)
		if out := k.must(t, "plan", "approve", k.onlyPlan(t), "--no-probe"); !strings.Contains(out, "(entry 1, publish)") {
			t.Error(out)
		}
		shows("1.0.0")
		folder := t.TempDir()
		for name, content := range map[string]string{"allowed": "ann " + annLine + "\n",
			"entry": k.must(t, "channel", "log", "stable", "--entry", "1", "--raw"), "entry.sig": k.must(t, "channel", "log", "stable", "--entry", "1", "--signature", "ann")} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := exec.CommandContext(t.Context(), keygen, "-Y", "verify", "-f", "allowed", "-I", "ann", "-n", "tsmon-log", "-s", "entry.sig")
		check.Dir = folder
		entry, err := os.Open(filepath.Join(folder, "entry"))
		if err != nil {
			t.Fatal(err)
		}
		defer entry.Close()
		check.Stdin = entry
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("ssh-keygen: %v\n%s", err, out)
		}

		// A thief with all that the job has moves nothing, whatever he tries.
		as(job)
		publish("1.1.0")
		for _, args := range [][]string{{"plan", "approve", k.onlyPlan(t), "--no-probe"}, {"plan", "apply", "--no-probe"},
			{"channel", "rollout", "stable", "--percent", "100", "--no-probe"}, {"channel", "pause", "stable", "--reason", "x", "--no-probe"},
			{"release", "rollback", "--channel", "stable", "--to", "1.0.0", "--reason", "x", "--no-probe"}, {"channel", "advance", "stable", "--no-probe"}} {
			_, _, _ = k.tsmon(t, args...)
		}
		configure("  ci: " + ciLine + "\n  bob: " + bobLine + "\n")
		_, _, _ = k.tsmon(t, "channel", "appoint", "stable", "--no-probe")
		waiting, _, err := k.publisher(t).Plans().List(t.Context(), "stable")
		if err != nil || len(waiting) < 2 {
			t.Fatalf("%d plans wait: %v", len(waiting), err)
		}
		for _, w := range waiting {
			_, _, _ = k.tsmon(t, "plan", "approve", w.Hash, "--no-probe")
		}
		configure("  ann: " + annLine + "\n  ci: " + ciLine + "\n")
		shows("1.0.0")

		// The person is replaced, with the signatures of those in force and of the new one;
		// then the token counts for nothing.
		configure("  ci: " + ciLine + "\n  bob: " + bobLine + "\n")
		as(token)
		var plans []release.Plan
		if err := json.Unmarshal([]byte(k.must(t, "channel", "appoint", "stable", "--reason", "ann has left", "--no-probe", "--json")), &plans); err != nil || len(plans) != 1 || plans[0].Waiting == nil {
			t.Fatalf("%+v, %v", plans, err)
		}
		plan := plans[0]
		for _, variable := range []string{job, "TSMON_OPERATOR_KEY=" + bob} {
			as(variable)
			k.must(t, "plan", "approve", plan.Waiting.Hash, "--no-probe")
		}
		as(job)
		if out := publish("1.2.0"); !strings.Contains(out, "by one of: bob\n") {
			t.Fatal(out)
		}
		as(token)
		if _, _, code := k.tsmon(t, "plan", "approve", k.onlyPlan(t), "--no-probe"); code != 5 {
			t.Errorf("the token of somebody who was removed: exit code %d", code)
		}
		shows("1.0.0")
		as("TSMON_OPERATOR_KEY=" + bob)
		k.must(t, "plan", "approve", k.onlyPlan(t), "--no-probe")
		shows("1.2.0")
	})
}

// TestECDSAToken: the key of a hardware token may be an ECDSA key, which must be touched too.
func TestECDSAToken(t *testing.T) {
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	ann, socket := newECDSAToken(t)
	k.configure(t, "  stable: {}\noperators: {ann: "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(ann.public)))+"}\n")
	k.env = append(k.env, "SSH_AUTH_SOCK="+socket)
	publish := []string{"release", "publish", "--no-probe", "--version", "1.0.0", bundles(t, "1.0.0", 100)}
	ann.untouched.Store(true)
	if _, stderr, code := k.tsmon(t, publish...); code == 0 {
		t.Errorf("published by a token that nobody touched: %s", stderr)
	}
	ann.untouched.Store(false)
	k.must(t, publish...)
	if got := k.verified(t, "stable"); got != "1.0.0" {
		t.Errorf("stable shows %s", got)
	}
	if out := k.must(t, "channel", "log", "stable", "--json"); !strings.Contains(out, `"ann"`) {
		t.Errorf("who signed it: %s", out)
	}
}
