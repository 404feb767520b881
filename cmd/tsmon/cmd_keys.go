package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/config"
	"tsmon/signing"
)

func (a *app) keysCommand() *cobra.Command {
	return group("keys", "Make and show signing keys", a.keysGenerateCommand(), a.keysShowCommand())
}

// keyReport is what the keys commands print.
type keyReport struct {
	Source    string `json:"source,omitempty"` // where it was read from
	KeyID     string `json:"key_id"`           // 16 hex digits, as minisign prints it
	PublicKey string `json:"public_key"`       // RW… line
	Pubkey    string `json:"pubkey"`           // value of plugins.updater.pubkey in tauri.conf.json
	Private   string `json:"private_key_file,omitempty"`
	Public    string `json:"public_key_file,omitempty"`
}

func reportKey(k signing.PublicKey) keyReport {
	return keyReport{KeyID: k.ID(), PublicKey: k.String(), Pubkey: k.Tauri()}
}

type keysGenerateOptions struct {
	output     string
	noPassword bool
	force      bool
}

func (a *app) keysGenerateCommand() *cobra.Command {
	var o keysGenerateOptions
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make a key pair in the Tauri CLI's format",
		Long: `Make a key pair in the Tauri CLI's format: FILE holds the private key (mode
0600), FILE.pub the public one. The password is asked for on a terminal, or
taken from TAURI_SIGNING_PRIVATE_KEY_PASSWORD. The line for tauri.conf.json goes
to stdout.`,
		Example: `  tsmon keys generate --output ~/.tauri/app.key
  TAURI_SIGNING_PRIVATE_KEY_PASSWORD=… tsmon keys generate --output app.key
  tsmon keys generate --no-password --json`,
		Args: exactly(0, "no arguments; --output names the file"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runKeysGenerate(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "tsmon.key", "write the private key to `FILE`, the public one to FILE.pub")
	cmd.Flags().BoolVar(&o.noPassword, "no-password", false, "encrypt with the empty password, as the Tauri CLI does without one")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace existing files; installed applications trust the old key only")
	return cmd
}

func (a *app) runKeysGenerate(ctx context.Context, o keysGenerateOptions) error {
	if err := checkVacant(o); err != nil {
		return err
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	password, err := a.newPassword(ctx, c, o.noPassword)
	if err != nil {
		return err
	}
	key, err := signing.GenerateKey()
	if err != nil {
		return err
	}
	encrypted, err := key.Encrypt(password)
	if err != nil {
		return err
	}
	if err := writeKeyPair(o, encrypted, key.Public().Tauri()); err != nil {
		return err
	}
	r := reportKey(key.Public())
	r.Private, r.Public = o.output, o.output+".pub"
	a.say("wrote %s (keep it secret, back it up: installed applications trust no other) and %s", r.Private, r.Public)
	a.say("key id %s; the line for plugins.updater in tauri.conf.json:", r.KeyID)
	return a.print(r, func() { fmt.Fprintf(a.stdout, "\"pubkey\": \"%s\"\n", r.Pubkey) })
}

// newPassword asks twice where it asks.
func (a *app) newPassword(ctx context.Context, c *config.Config, none bool) (string, error) {
	if none {
		return "", nil
	}
	if c.Signing.KeyPassword == nil && !a.interactive() {
		return "", &hinted{usagef("no password"), "set TAURI_SIGNING_PRIVATE_KEY_PASSWORD, or say --no-password"}
	}
	first, err := a.password(ctx, c, "New password: ")
	if err != nil || c.Signing.KeyPassword != nil {
		return first, err
	}
	second, err := a.password(ctx, c, "Once more: ")
	if err == nil && first != second {
		err = usagef("the passwords differ")
	}
	return first, err
}

func (a *app) interactive() bool {
	file, ok := a.stdin.(*os.File)
	return ok && isTerminal(file)
}

// checkVacant refuses to replace either file without --force.
func checkVacant(o keysGenerateOptions) error {
	for _, path := range []string{o.output, o.output + ".pub"} {
		if _, err := os.Lstat(path); err == nil && !o.force {
			return &hinted{usagef("%s exists", path), "name another file with --output; --force replaces it, and with it the key that installed applications trust"}
		}
	}
	return nil
}

// writeKeyPair writes the private key first. A missing folder is created for its
// owner alone.
func writeKeyPair(o keysGenerateOptions, private, public string) error {
	if err := os.MkdirAll(filepath.Dir(o.output), 0o700); err != nil {
		return err
	}
	if err := writeFile(o.output, 0o600, []byte(private)); err != nil {
		return err
	}
	return writeFile(o.output+".pub", 0o644, []byte(public))
}

func (a *app) keysShowCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show [KEY…]",
		Short: "Print key id and public key of any of the formats, never the secret",
		Long: `Print key id and public key of keys in any of the formats: public keys
themselves or files (Tauri's base64, minisign's .pub file, the RW… line), and
files with a private key (Tauri or minisign), which are opened for it. Without
an argument, the signing key of the environment and the trusted keys are shown.`,
		Example: `  tsmon keys show ~/.tauri/app.key.pub
  tsmon keys show --key ~/.tauri/app.key
  tsmon keys show RWRC+sAtu3Ij2SAENippEc3ou4a5ZGC7BVgi2Ld+chrr+pL7chP3/7gD`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runKeysShow(cmd.Context(), args, file) },
	}
	cmd.Flags().StringVar(&file, "key", "", "show the key of this private key `FILE`")
	return cmd
}

func (a *app) runKeysShow(ctx context.Context, args []string, file string) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	keys, err := a.keysToShow(ctx, c, args, file)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return noKey()
	}
	reports := make([]keyReport, len(keys))
	for i, k := range keys {
		public, err := k.public()
		if err != nil {
			return err
		}
		reports[i] = reportKey(public)
		reports[i].Source = k.source
	}
	return a.print(reports, func() { a.printKeys(reports) })
}

// shownKey is a key that was read, and opened only when public is called.
type shownKey struct {
	source string // empty for a public key among the arguments
	public func() (signing.PublicKey, error)
}

func known(k signing.PublicKey) func() (signing.PublicKey, error) {
	return func() (signing.PublicKey, error) { return k, nil }
}

func publicOf(unlock func() (signing.PrivateKey, error)) func() (signing.PublicKey, error) {
	return func() (signing.PublicKey, error) {
		key, err := unlock()
		return key.Public(), err
	}
}

// keysToShow reads all keys before any is opened, so that a wrong argument is
// reported first.
func (a *app) keysToShow(ctx context.Context, c *config.Config, args []string, file string) ([]shownKey, error) {
	var keys []shownKey
	for _, arg := range args {
		k, err := a.keyOf(ctx, c, arg)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if file != "" || len(args) == 0 {
		unlock, err := a.lockedKey(ctx, c, file)
		if err != nil {
			return nil, err
		}
		if unlock != nil {
			keys = append([]shownKey{{"private key", publicOf(unlock)}}, keys...)
		}
	}
	if file == "" && len(args) == 0 {
		trusted, err := keyring(c.TrustedKeys)
		if err != nil {
			return nil, err
		}
		for _, k := range trusted {
			keys = append(keys, shownKey{"trusted_keys", known(k)})
		}
	}
	return keys, nil
}

// keyText matches what is meant as a key rather than as the name of a file. It
// may be secret.
var keyText = regexp.MustCompile(`^[\sA-Za-z0-9+/=]{40,}$|untrusted comment|\n`)

// keyOf reads a public key, or the private key in a file.
func (a *app) keyOf(ctx context.Context, c *config.Config, arg string) (shownKey, error) {
	text, err := textOrFile(arg)
	if err != nil {
		return shownKey{}, err
	}
	source := ""
	if text != arg {
		source = arg
	}
	public, err := signing.ParsePublicKey(text)
	if err == nil {
		return shownKey{source, known(public)}, nil
	}
	if _, asPrivate := signing.ParsePrivateKey(text); asPrivate != nil {
		if source == "" && !keyText.MatchString(arg) {
			_, missing := os.Stat(arg)
			err = cmp.Or(missing, err)
		}
		return shownKey{}, err
	}
	if source == "" {
		return shownKey{}, &hinted{usagef("a private key stands among the arguments, where every process can read it"), "give its file; consider this key known"}
	}
	unlock, err := a.locked(ctx, c, text)
	return shownKey{source, publicOf(unlock)}, err
}

func (a *app) printKeys(reports []keyReport) {
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if r.Source != "" {
			fmt.Fprintf(a.stdout, "source:      %s\n", r.Source)
		}
		fmt.Fprintf(a.stdout, "key id:      %s\npublic key:  %s\npubkey:      %s\n", r.KeyID, r.PublicKey, r.Pubkey)
	}
}
