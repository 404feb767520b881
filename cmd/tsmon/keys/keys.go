// Package keys holds the commands for signing keys.
package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/signing"
	"tsmon/store/durable"
)

// Command returns `tsmon keys`.
func Command(app *cli.App) *cobra.Command {
	return cli.Group("keys", "Create, show and rotate signing keys", generateCommand(app), showCommand(app), rotateCommand(app))
}

// Key is what the keys commands print.
type Key struct {
	Source    string `json:"source,omitempty"`     // file, "private key" or "trusted_keys"
	KeyID     string `json:"key_id"`               // 16 hex digits, as minisign prints it
	PublicKey string `json:"public_key,omitempty"` // RW… line; empty for a signature
	Pubkey    string `json:"pubkey,omitempty"`     // value of plugins.updater.pubkey in tauri.conf.json, likewise
	From      string `json:"from,omitempty"`       // first version of the application that has the key
	Until     string `json:"until,omitempty"`      // first that no longer has it
	Version   string `json:"version,omitempty"`    // that a signature is bound to; nothing has verified it
	Target    string `json:"target,omitempty"`     // likewise
	Filename  string `json:"file,omitempty"`       // the name that a signature gives its bundle
	Private   string `json:"private_key_file,omitempty"`
	Public    string `json:"public_key_file,omitempty"`
}

func reportKey(source string, k signing.PublicKey) Key {
	return Key{Source: source, KeyID: k.ID(), PublicKey: k.String(), Pubkey: k.Tauri()}
}

type generateOptions struct {
	output     string
	noPassword bool
	force      bool
}

func generateCommand(app *cli.App) *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Create a key pair in the Tauri CLI's format",
		Long: `Create a key pair in the Tauri CLI's format: FILE holds the private key (mode
0600), FILE.pub the public one. A missing folder is created with mode 0700.
The password comes from TAURI_SIGNING_PRIVATE_KEY_PASSWORD, or is asked for on a
terminal. The line for tauri.conf.json goes to stdout.`,
		Example: `  tsmon keys generate --output ~/.tauri/app.key
  TAURI_SIGNING_PRIVATE_KEY_PASSWORD=… tsmon keys generate --output app.key
  tsmon keys generate --no-password --json`,
		Args: cli.Args(0, 0, "no arguments; --output names the file"),
		RunE: func(cmd *cobra.Command, _ []string) error { return runGenerate(cmd.Context(), app, o) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "tsmon.key", "write the private key to `FILE`, the public one to FILE.pub")
	cmd.Flags().BoolVar(&o.noPassword, "no-password", false, "encrypt with an empty password, as the Tauri CLI does if none is given")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace existing files; installed applications trust only the old key")
	return cmd
}

func runGenerate(ctx context.Context, app *cli.App, o generateOptions) error {
	if err := checkVacant(o); err != nil {
		return err
	}
	c, err := app.Load()
	if err != nil {
		return err
	}
	password, err := newPassword(ctx, app, c, o.noPassword)
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
	r := reportKey("", key.Public())
	r.Private, r.Public = o.output, o.output+".pub"
	app.Say("wrote %s (keep it secret, back it up: installed applications trust no other) and %s", r.Private, r.Public)
	app.Say("key id %s; the line for plugins.updater in tauri.conf.json:", r.KeyID)
	return app.Print(r, func(w io.Writer) { fmt.Fprintf(w, "\"pubkey\": \"%s\"\n", r.Pubkey) })
}

func newPassword(ctx context.Context, app *cli.App, c *config.Config, none bool) (string, error) {
	if none {
		return "", nil
	}
	if c.Signing.KeyPassword == nil && !cli.IsTerminal(app.Stdin) {
		return "", cli.WithHint(cli.Usagef("no password"), "set TAURI_SIGNING_PRIVATE_KEY_PASSWORD, or use --no-password")
	}
	first, err := app.Password(ctx, c, "New password: ")
	if err != nil || c.Signing.KeyPassword != nil {
		return first, err
	}
	second, err := app.Password(ctx, c, "Once more: ")
	if err == nil && first != second {
		err = cli.Usagef("the passwords differ")
	}
	return first, err
}

// checkVacant refuses to replace either file without --force, and a folder with it.
func checkVacant(o generateOptions) error {
	if o.output == "" || os.IsPathSeparator(o.output[len(o.output)-1]) {
		return cli.Usagef("--output names no file: %q", o.output)
	}
	for _, path := range []string{o.output, o.output + ".pub"} {
		info, err := os.Lstat(path)
		switch {
		case err != nil:
		case info.IsDir():
			return cli.Usagef("--output: %s is a folder", path)
		case !o.force:
			return cli.WithHint(cli.Usagef("%s exists", path), "name another file with --output; --force replaces it, and with it the key that installed applications trust")
		}
	}
	return nil
}

// writeKeyPair writes the private key first. A missing folder is created for its
// owner alone.
func writeKeyPair(o generateOptions, private, public string) error {
	if err := os.MkdirAll(filepath.Dir(o.output), 0o700); err != nil {
		return err
	}
	if err := durable.Replace(o.output, 0o600, []byte(private)); err != nil {
		return err
	}
	return durable.Replace(o.output+".pub", 0o644, []byte(public))
}

func showCommand(app *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show [KEY…]",
		Short: "Print ids and public keys, or the key that made a signature",
		Long: `Print the id and the public key of each KEY, which is a public key or its file (Tauri's
base64, minisign's .pub file, the RW… line) or the file of a private key (Tauri or
minisign), which is decrypted. No secret is printed. For a signature file, print the id
of the key and the version and target that the signature claims; nothing is verified.
Without arguments, print the signing key of the environment and the trusted keys.`,
		Example: `  tsmon keys show ~/.tauri/app.key.pub
  tsmon keys show --key ~/.tauri/app.key
  tsmon keys show App_1.4.0_amd64.AppImage.sig
  tsmon keys show RWRC+sAtu3Ij2SAENippEc3ou4a5ZGC7BVgi2Ld+chrr+pL7chP3/7gD`,
		RunE: func(cmd *cobra.Command, args []string) error { return runShow(cmd.Context(), app, args, file) },
	}
	cmd.Flags().StringVar(&file, "key", "", "private key `FILE`, even if the environment has another")
	return cmd
}

func runShow(ctx context.Context, app *cli.App, args []string, file string) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	keys, err := keysToShow(ctx, app, c, args, file)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return cli.ErrNoKey
	}
	reports := make([]Key, len(keys))
	for i, k := range keys {
		if k.unlock != nil {
			private, err := k.unlock()
			if err != nil {
				return err
			}
			k.Key = reportKey(k.Source, private.Public())
		}
		reports[i] = k.Key
	}
	return app.Print(reports, func(w io.Writer) { printKeys(w, reports) })
}

// shownKey is a report. That of a private key has only the source until it is unlocked.
type shownKey struct {
	Key
	unlock func() (signing.PrivateKey, error) // nil unless it is a private key
}

// keysToShow reads all keys before any is unlocked, so that a wrong argument is
// reported first.
func keysToShow(ctx context.Context, app *cli.App, c *config.Config, args []string, file string) ([]shownKey, error) {
	var keys, named []shownKey
	for _, arg := range args {
		k, err := readKey(ctx, app, c, arg)
		if err != nil {
			return nil, err
		}
		named = append(named, k)
	}
	if file != "" || len(args) == 0 {
		unlock, err := app.LockedKey(ctx, c, file)
		if err != nil {
			return nil, err
		}
		if unlock != nil {
			keys = append(keys, shownKey{Key{Source: "private key"}, unlock})
		}
	}
	if file == "" && len(args) == 0 {
		trusted, err := cli.Keyring(c.TrustedKeys)
		if err != nil {
			return nil, err
		}
		for _, k := range trusted {
			r := reportKey("trusted_keys", k.PublicKey)
			r.From, r.Until = k.From, k.Until
			keys = append(keys, shownKey{Key: r})
		}
	}
	return append(keys, named...), nil
}

// keyText matches arguments that look like a key, which may be secret, and not like a file name.
var keyText = regexp.MustCompile(`^[\sA-Za-z0-9+/=]{40,}$|untrusted comment|\n`)

// readKey reads a public key, a signature, or the private key in a file.
func readKey(ctx context.Context, app *cli.App, c *config.Config, arg string) (k shownKey, err error) {
	text, err := cli.TextOrFile(arg)
	if err != nil {
		return k, err
	}
	if text != arg {
		k.Source = arg
	}
	public, err := signing.ParsePublicKey(text)
	if err == nil {
		k.Key = reportKey(k.Source, public)
		return k, nil
	}
	if s, failed := signing.ReadSignature(text); failed == nil {
		version, _ := s.Version()
		target, _ := s.Target()
		k.Key = Key{Source: k.Source, KeyID: s.KeyID(), Version: version, Target: target, Filename: s.Filename()}
		return k, nil
	}
	private, failed := signing.ParsePrivateKey(text)
	switch {
	case failed == nil && k.Source == "":
		return k, cli.WithHint(cli.Usagef("a private key is among the arguments, where every process can read it"), "give its file; consider this key compromised")
	case failed == nil:
		k.unlock, err = app.Unlocker(ctx, c, private, k.Source)
	case k.Source == "":
		err = orNoFile(arg, err)
	default:
		err = fmt.Errorf("%s: %w", k.Source, err)
	}
	return k, err
}

// orNoFile returns err, which says that arg is not a key, or a better error if arg looks like the
// name of a file that does not exist, or names a folder.
func orNoFile(arg string, err error) error {
	info, failed := os.Stat(arg)
	switch {
	case errors.Is(failed, fs.ErrNotExist) && !keyText.MatchString(arg):
		return cli.WithHint(cli.Usagef("there is no file %s", arg), "check the path")
	case failed == nil && info.IsDir():
		return cli.Usagef("%s is a folder, not a key", arg)
	}
	return err
}

func printKeys(w io.Writer, reports []Key) {
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if r.Source != "" {
			fmt.Fprintf(w, "source:      %s\n", r.Source)
		}
		fmt.Fprintf(w, "key id:      %s\n", r.KeyID)
		if r.PublicKey == "" {
			fmt.Fprintf(w, "version:     %s\ntarget:      %s\nfile:        %s\n", cmp.Or(r.Version, "none"), cmp.Or(r.Target, "none"), cmp.Or(r.Filename, "none"))
			continue
		}
		fmt.Fprintf(w, "public key:  %s\npubkey:      %s\n", r.PublicKey, r.Pubkey)
		if span := (signing.Span{From: r.From, Until: r.Until}); span != (signing.Span{}) {
			fmt.Fprintf(w, "built in:    %s\n", span)
		}
	}
}
