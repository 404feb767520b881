package cli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tsmon/cmd/tsmon/config"
	"tsmon/release/approval"
	"tsmon/signing/signingtest"
)

// refusing is an agent that signs nothing.
type refusing struct{ agent.Agent }

func (refusing) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	return nil, errors.New("not confirmed")
}

// TestAgents: whatever is wrong with an agent, the error says so.
func TestAgents(t *testing.T) {
	private, signer := signingtest.OperatorKey(t)
	with := func(t *testing.T) agent.Agent {
		ring := agent.NewKeyring()
		if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
			t.Fatal(err)
		}
		return ring
	}
	for name, c := range map[string]struct {
		agent func(t *testing.T) agent.Agent // nil: nobody listens
		keys  []string
		noKey bool
		text  string // empty: it signs
		hint  string
	}{
		"its key":     {agent: with, keys: []string{signer.Public().String()}},
		"nobody":      {keys: []string{signer.Public().String()}, noKey: true, text: "the agent at SSH_AUTH_SOCK does not answer"},
		"no key":      {agent: func(*testing.T) agent.Agent { return agent.NewKeyring() }, keys: []string{signer.Public().String()}, noKey: true, text: "holds no key, or is locked (ssh-add -X)"},
		"another key": {agent: with, keys: []string{"ssh-ed25519 AAAA"}, noKey: true, text: "none of the 1 keys of the agent is an operator's"},
		"locked": {agent: func(t *testing.T) agent.Agent {
			ring := with(t)
			if err := ring.Lock([]byte("secret")); err != nil {
				t.Fatal(err)
			}
			return ring
		}, keys: []string{signer.Public().String()}, noKey: true, text: "holds no key, or is locked (ssh-add -X)"},
		// follows: unlock the agent with `ssh-add -X`, confirm when it asks, or touch the token when it blinks; then run the same command again
		"refuses": {agent: func(t *testing.T) agent.Agent { return refusing{with(t)} }, keys: []string{signer.Public().String()},
			text: "has the key " + signer.Public().Fingerprint() + ", but refuses to sign with it", hint: "unlock the agent with `ssh-add -X`"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, err := os.MkdirTemp("", "agent") // the path of a socket has 108 bytes at the most
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(folder) })
			socket := filepath.Join(folder, "s")
			if c.agent != nil {
				listener, err := net.Listen("unix", socket)
				if err != nil {
					t.Fatal(err)
				}
				served, ours := make(chan struct{}), c.agent(t)
				go func() {
					defer close(served)
					if conn, err := listener.Accept(); err == nil {
						_ = agent.ServeAgent(ours, conn)
						_ = conn.Close()
					}
				}()
				t.Cleanup(func() { _ = listener.Close(); <-served })
			}
			t.Setenv("SSH_AUTH_SOCK", socket)
			armored, err := New().Sign(&config.Config{})(t.Context(), c.keys, []byte("entry"))
			if c.text == "" {
				if err != nil || !strings.Contains(armored, "SSH SIGNATURE") {
					t.Errorf("%q, %v", armored, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.text) || errors.Is(err, approval.ErrNoKey) != c.noKey || !strings.Contains(HintFor(err), c.hint) {
				t.Errorf("%v, hint %q", err, HintFor(err))
			}
		})
	}
}
