package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

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

// writeKeyPair writes the private key first; neither file is replaced unless
// that was asked for.
func writeKeyPair(o keysGenerateOptions, private, public string) error {
	if !o.force {
		for _, path := range []string{o.output, o.output + ".pub"} {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				return &hinted{usagef("%s exists", path), "name another file with --output; --force replaces it, and with it the key that installed applications trust"}
			}
		}
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
	var reports []keyReport
	if file != "" || len(args) == 0 && (c.Signing.Key != "" || c.Signing.KeyPath != "") {
		key, err := a.privateKey(ctx, c, file)
		if err != nil {
			return err
		}
		r := reportKey(key.Public())
		r.Source = "private key"
		reports = append(reports, r)
	}
	if len(args) == 0 && file == "" {
		keys, err := keyring(c.TrustedKeys)
		if err != nil {
			return err
		}
		for _, k := range keys {
			r := reportKey(k)
			r.Source = "trusted_keys"
			reports = append(reports, r)
		}
	}
	for _, arg := range args {
		r, err := a.showKey(ctx, c, arg)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return noKey()
	}
	return a.print(reports, func() { a.printKeys(reports) })
}

// showKey reads a public key, or the public half of a private one in a file.
func (a *app) showKey(ctx context.Context, c *config.Config, arg string) (keyReport, error) {
	text, err := textOrFile(arg)
	if err != nil {
		return keyReport{}, err
	}
	source := ""
	if text != arg {
		source = arg
	}
	public, err := signing.ParsePublicKey(text)
	if err != nil {
		if _, asPrivate := signing.ParsePrivateKey(text); asPrivate != nil {
			return keyReport{}, err
		}
		if source == "" {
			return keyReport{}, &hinted{usagef("a private key stands among the arguments, where every process can read it"), "give its file; consider this key known"}
		}
		unlock, err := a.locked(ctx, c, text)
		if err != nil {
			return keyReport{}, err
		}
		key, err := unlock()
		if err != nil {
			return keyReport{}, err
		}
		public = key.Public()
	}
	r := reportKey(public)
	r.Source = source
	return r, nil
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
