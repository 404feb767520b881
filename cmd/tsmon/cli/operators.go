package cli

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh/agent"

	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
	"tsmon/release/approval"
	"tsmon/signing"
)

// Operators returns the configured operators of a channel, nil if there are none. By default one
// of them can approve a move.
func Operators(c *config.Config, channel string) (*channels.Operators, error) {
	if len(c.Operators) == 0 {
		return nil, nil
	}
	policy := c.Channels[channel]
	o := &channels.Operators{Keys: map[string]string{}, Approvals: countOr(policy.Approvals, 1), Follows: policy.Follows}
	o.Rollbacks = countOr(policy.RollbackApprovals, o.Approvals)
	for name, operator := range c.Operators {
		if len(policy.Operators) > 0 && !slices.Contains(policy.Operators, name) {
			continue
		}
		key, err := signing.ParseSSHKey(operator.Key)
		if err != nil {
			return nil, fmt.Errorf("the key of %s: %w", name, err)
		}
		if operator.Only == config.OnlyPause {
			if o.Servers == nil {
				o.Servers = map[string]string{}
			}
			o.Servers[name] = key.String()
			continue
		}
		o.Keys[name] = key.String()
	}
	return o, o.Check()
}

// countOr returns a number of approvals, or fallback if it is not set or below 1.
func countOr(n *int, fallback int) int {
	if n == nil || *n < 1 {
		return fallback
	}
	return *n
}

// Root returns the keys of server.operators_root.
func Root(c *config.Config) (keys []string, err error) {
	for _, text := range c.Server.OperatorsRoot {
		key, err := signing.ParseSSHKey(text)
		if err != nil {
			return nil, fmt.Errorf("server.operators_root: %w", err)
		}
		keys = append(keys, key.String())
	}
	return keys, nil
}

// Trust returns the configured trust in the operators of each channel.
func Trust(c *config.Config) (map[string]channels.Trust, error) {
	root, err := Root(c)
	if err != nil {
		return nil, Usage(err)
	}
	trust := map[string]channels.Trust{}
	for name := range c.Channels {
		o, err := Operators(c, name)
		if err != nil {
			return nil, Usage(err)
		}
		trust[name] = channels.Trust{Operators: o, Root: root}
	}
	return trust, nil
}

// checkOperators returns a mistake for each invalid operator or number of approvals.
func checkOperators(c *config.Config) (found config.Mistakes) {
	const mend = "write them like {ann: ssh-ed25519 AAAA…, guard: {key: ssh-ed25519 AAAA…, only: pause}}, and no more approvals than people"
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		if _, err := Operators(c, name); err != nil {
			found = append(found, config.Mistake{Setting: "channels." + name, Text: "operators of " + name + ": " + err.Error(), Mend: mend})
		}
	}
	if _, err := Root(c); err != nil {
		found = append(found, config.Mistake{Setting: "server.operators_root", Text: err.Error(), Mend: "write public keys of OpenSSH, such as ssh-ed25519 AAAA…"})
	}
	return found
}

// agentTime bounds requests to an agent. A hardware token waits until it is touched.
const agentTime = 2 * time.Minute

// Sign returns the function that signs moves, with the key in TSMON_OPERATOR_KEY or else with one
// of the agent at SSH_AUTH_SOCK.
func (a *App) Sign(c *config.Config) approval.Sign {
	return func(ctx context.Context, keys []string, data []byte) (string, error) {
		if text := string(c.Signing.OperatorKey); text != "" {
			signer, err := operatorKey(text)
			if err != nil {
				return "", err
			}
			if !slices.Contains(keys, signer.Public().String()) {
				return "", fmt.Errorf("%w: %s in TSMON_OPERATOR_KEY", approval.ErrNotOperator, signer.Public().Fingerprint())
			}
			return signer.Sign(channels.Namespace, data)
		}
		return agentSign(ctx, a.Variable("SSH_AUTH_SOCK"), keys, data)
	}
}

func operatorKey(text string) (signing.SSHSigner, error) {
	content, err := TextOrFile(text)
	if err == nil && content == text && !strings.Contains(text, "PRIVATE KEY") {
		err = fmt.Errorf("it is neither a key nor an existing file: %w", fs.ErrNotExist)
	}
	var signer signing.SSHSigner
	if err == nil {
		signer, err = signing.ParseSSHSigner(strings.TrimSpace(content) + "\n")
	}
	if err != nil {
		return signer, WithHint(Usage(fmt.Errorf("the key in TSMON_OPERATOR_KEY: %w", err)), "set it to a private key of `ssh-keygen -t ed25519` without a passphrase, or its path; add a key with a passphrase or of a hardware token to an agent with ssh-add")
	}
	if content != text {
		err = privateFile(text)
	}
	return signer, err
}

// agentSign signs with the first key of the agent at a socket that is among keys.
func agentSign(ctx context.Context, socket string, keys []string, data []byte) (string, error) {
	if socket == "" {
		return "", fmt.Errorf("%w: TSMON_OPERATOR_KEY is not set, and SSH_AUTH_SOCK names no agent", approval.ErrNoKey)
	}
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", fmt.Errorf("%w: TSMON_OPERATOR_KEY is not set, and the agent at SSH_AUTH_SOCK does not answer", approval.ErrNoKey)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return "", fmt.Errorf("ask the agent at SSH_AUTH_SOCK: %w", err)
	}
	for _, plain := range signers {
		signer, err := signing.NewSSHSigner(plain)
		if err == nil && slices.Contains(keys, signer.Public().String()) {
			armored, err := signer.Sign(channels.Namespace, data)
			if err != nil {
				err = WithHint(fmt.Errorf("the agent at SSH_AUTH_SOCK has the key %s, but refuses to sign with it: %w", signer.Public().Fingerprint(), err),
					"unlock the agent with `ssh-add -X`, confirm when it asks, or touch the token when it blinks; then run the same command again")
			}
			return armored, err
		}
	}
	if len(signers) == 0 {
		return "", fmt.Errorf("%w: TSMON_OPERATOR_KEY is not set, and the agent at SSH_AUTH_SOCK holds no key, or is locked (ssh-add -X)", approval.ErrNoKey)
	}
	return "", fmt.Errorf("%w: TSMON_OPERATOR_KEY is not set, and none of the %d keys of the agent is an operator's", approval.ErrNoKey, len(signers))
}
