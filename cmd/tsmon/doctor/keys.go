package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"tsmon/cmd/tsmon/config"
	"tsmon/signing"
)

// keysArea compares the trusted keys with the application's and with the private key of the
// environment.
type keysArea struct{ *patient }

func (p keysArea) examine(ctx context.Context, n *notes) {
	n.at("trusted_keys")
	if len(p.keys) == 0 {
		n.fail(p.trustApplication(), "no key is trusted, so that nothing can be published")
	} else {
		n.ok("trusted: %s", names(p.keys))
	}
	p.applicationKeys(n)
	p.privateKey(ctx, n)
}

// names lists keys by their ids and spans.
func names(keys signing.Keyring) string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.Name()
	}
	return strings.Join(texts, ", ")
}

// trustApplication returns the hint with the right trusted_keys.
func (p keysArea) trustApplication() string {
	var keys config.TrustedKeys
	for _, k := range p.keys {
		keys = append(keys, config.TrustedKey{Key: k.PublicKey.String(), From: k.From, Until: k.Until})
	}
	if p.project != nil {
		for _, text := range p.project.Pubkeys() {
			if key, err := signing.ParsePublicKey(text); err == nil && !p.keys.Trusts(key) {
				keys = append(keys, config.TrustedKey{Key: key.String()})
			}
		}
	}
	if len(keys) == len(p.keys) {
		return "set trusted_keys (TSMON_TRUSTED_KEYS) to the pubkey of tauri.conf.json; `tsmon keys generate` makes a key pair"
	}
	return "set trusted_keys (TSMON_TRUSTED_KEYS) to " + keys.String()
}

// applicationKeys checks that the key that is built into the application is trusted.
func (p keysArea) applicationKeys(n *notes) {
	if p.project == nil {
		return
	}
	n.at(p.project.File)
	for _, text := range p.project.Pubkeys() {
		key, err := signing.ParsePublicKey(text)
		switch {
		case err != nil:
			n.failed(err, "write the content of the .pub file there, as `tsmon keys show FILE.pub` prints it after pubkey:")
		case p.keys.Trusts(key) && !p.builtIn(key):
			n.fail("correct from and until of the key in trusted_keys, or build with the key that they say; `tsmon keys rotate --to FILE` plans the change of a key",
				"the application verifies updates with %s, which trusted_keys does not give to its version", key.ID())
		case p.keys.Trusts(key):
			n.ok("the application's key %s is trusted", key.ID())
		case len(p.keys) > 0:
			n.fail(p.trustApplication()+`, or, if the application has the wrong key, write "pubkey": "`+p.keys[0].Tauri()+`" into plugins.updater`,
				"the application verifies updates with %s, which is not trusted", key.ID())
		}
	}
}

// builtIn reports whether trusted_keys says that the project's version has a key, or
// that version is unknown.
func (p keysArea) builtIn(key signing.PublicKey) bool {
	version, err := p.project.Version()
	return err != nil || p.keys.BuiltInto(version).Trusts(key)
}

// verifies reports whether the application has a key, or is unknown.
func (p keysArea) verifies(key signing.PublicKey) bool {
	if p.project == nil || len(p.project.Pubkeys()) == 0 {
		return true
	}
	return slices.ContainsFunc(p.project.Pubkeys(), func(text string) bool {
		k, err := signing.ParsePublicKey(text)
		return err == nil && k == key
	})
}

// privateKey compares the private key of the environment with the trusted keys. It
// asks for no password.
func (p keysArea) privateKey(ctx context.Context, n *notes) {
	n.at("TAURI_SIGNING_PRIVATE_KEY")
	silent := *p.App
	silent.Stdin = nil
	unlock, err := silent.LockedKey(ctx, p.config, "")
	if err != nil {
		n.failed(err, "set it to the private key itself, or to the path of its file")
		return
	}
	if unlock == nil {
		n.ok("no private key in the environment; only the machine that signs needs one")
		return
	}
	private, err := unlock()
	switch {
	case errors.Is(err, signing.ErrPassword) && p.config.Signing.KeyPassword == nil:
		n.warn("set TAURI_SIGNING_PRIVATE_KEY_PASSWORD, then run `tsmon doctor` again", "the private key has a password, so that it can't be compared")
	case err != nil:
		n.failed(err, "set it to the private key itself, or to the path of its file")
	case p.keys.Trusts(private.Public()) && !p.verifies(private.Public()):
		n.warn("set it to the private key of the application's pubkey, unless you build the first release with a new pubkey, which the old key has to sign",
			"the private key is that of %s, which is trusted, but is not the pubkey of %s", private.Public().ID(), p.project.File)
	case p.keys.Trusts(private.Public()):
		n.ok("the private key is that of %s, which is trusted", private.Public().ID())
	case len(p.keys) == 0:
		n.warn("see trusted_keys", "the private key is that of %s", private.Public().ID())
	default:
		n.fail("set it to the private key of "+p.keys.IDs()+"; if the application has the public key of "+private.Public().ID()+", set trusted_keys (TSMON_TRUSTED_KEYS) to "+private.Public().String(),
			"the private key is that of %s, which is not trusted: installed applications would refuse what it signs", private.Public().ID())
	}
}
