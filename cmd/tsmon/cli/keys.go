package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/term"

	"tsmon/cmd/tsmon/config"
	"tsmon/signing"
)

// Keyring parses trusted keys, each a key or the path of its file.
func Keyring(keys config.TrustedKeys) (signing.Keyring, error) {
	texts := make([]signing.KeyText, len(keys))
	for i, key := range keys {
		text, err := trustedText(key)
		if err != nil {
			return nil, fmt.Errorf("trusted key %d: %w", i+1, err)
		}
		texts[i] = signing.KeyText{Key: text, From: key.From, Until: key.Until}
	}
	ring, err := signing.ParseKeyring(texts)
	if err != nil {
		return nil, Usage(err)
	}
	return ring, nil
}

const mendTrusted = "write the pubkey of tauri.conf.json, the RW… line of a .pub file, or the path of that file"

// trustedText returns the text of a trusted key or of its file. A name that ends in .pub must be
// that of a file.
func trustedText(key config.TrustedKey) (string, error) {
	text, err := TextOrFile(key.Key)
	if err == nil && text == key.Key && strings.HasSuffix(text, ".pub") {
		err = WithHint(Usagef("there is no file %s", text), mendTrusted)
	}
	return text, err
}

// TextOrFile returns the content of the file of that name, or the text itself if
// there is no such file.
func TextOrFile(text string) (string, error) {
	if len(text) > 4096 || strings.ContainsAny(text, "\n\x00") {
		return text, nil
	}
	info, err := os.Stat(text)
	switch {
	case err == nil && info.Mode().IsRegular():
		return keyFile(text)
	case errors.Is(err, fs.ErrPermission) && filepath.IsAbs(text): // not a key
		return text, &fs.PathError{Op: "find", Path: "the file that it names", Err: fs.ErrPermission}
	}
	return text, nil
}

// keyFile reads the file of a key. If path is a key itself, the error does not
// show it.
func keyFile(path string) (string, error) {
	if keyLike.MatchString(path) {
		return "", WithHint(Usagef("this is a key, not the path of its file"), "set TAURI_SIGNING_PRIVATE_KEY to the key itself, or name its file")
	}
	data, err := ReadSmall(path)
	return string(data), err
}

// keyLike matches a key in any form, even truncated or with line breaks.
var keyLike = regexp.MustCompile(`untrusted comment|^[\sA-Za-z0-9+/=]{100,}$|\n`)

// LockedKey reads the signing key from a file, or from the environment if file is empty, and asks
// for its password. unlock decrypts the key, which takes 0.1 s for a Tauri key; it is nil if there
// is no key.
func (a *App) LockedKey(ctx context.Context, c *config.Config, file string) (unlock func() (signing.PrivateKey, error), err error) {
	path, text, err := privateKeyText(c, file)
	if err != nil || text == "" {
		return nil, err
	}
	key, err := signing.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmp.Or(path, "the key in TAURI_SIGNING_PRIVATE_KEY, which names no file"), err)
	}
	return a.Unlocker(ctx, c, key, path)
}

// Unlocker asks for the password of a private key if it has one. It refuses a key file, if path
// names one, that other users can read.
func (a *App) Unlocker(ctx context.Context, c *config.Config, file signing.KeyFile, path string) (unlock func() (signing.PrivateKey, error), err error) {
	if err := privateFile(path); err != nil {
		return nil, err
	}
	password := ""
	if file.Encrypted() {
		if password, err = a.Password(ctx, c, "Password of the private key: "); err != nil {
			return nil, err
		}
	}
	return func() (signing.PrivateKey, error) {
		key, err := file.Decrypt(password)
		if errors.Is(err, signing.ErrPassword) && password == "" {
			return key, Reword(err, "the private key is encrypted, and %s", noPassword(c, IsTerminal(a.Stdin)))
		}
		return key, err
	}, nil
}

// noPassword says why there is no password.
func noPassword(c *config.Config, asked bool) string {
	switch {
	case c.Signing.KeyPassword != nil:
		return "TAURI_SIGNING_PRIVATE_KEY_PASSWORD is empty"
	case asked:
		return "no password was typed"
	}
	return "TAURI_SIGNING_PRIVATE_KEY_PASSWORD is not set"
}

// privateFile refuses a private key file that other users can read. Its group may read it,
// because containers mount secrets that way. An empty path is ignored.
func privateFile(path string) error {
	if path == "" {
		return nil
	}
	return CheckMode(path, 0o037, "600")
}

// CheckMode refuses a regular file that has one of these permissions; the hint suggests the
// permissions in mend. It checks nothing on Windows.
func CheckMode(path string, refused fs.FileMode, mend string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&refused != 0 && runtime.GOOS != "windows" {
		err = WithHint(fmt.Errorf("%s can be read or written by other users", path), "chmod "+mend+" "+path)
	}
	return err
}

// privateKeyText returns the text of the signing key and its file, empty if the environment has
// the key itself. Both are empty if there is no key.
func privateKeyText(c *config.Config, file string) (path, text string, err error) {
	if named := string(c.Signing.Key); file == "" && named != "" {
		text, err = TextOrFile(named)
		switch {
		case text != named:
			return named, text, err
		case err != nil:
			return "", "", fmt.Errorf("the key in TAURI_SIGNING_PRIVATE_KEY: %w", err)
		}
		return "", text, nil
	}
	if path = cmp.Or(file, c.Signing.KeyPath); path != "" {
		text, err = keyFile(path)
	}
	return path, text, err
}

// Password returns the password from the environment, or asks for it on a terminal. Without
// either it is empty.
func (a *App) Password(ctx context.Context, c *config.Config, prompt string) (string, error) {
	if c.Signing.KeyPassword != nil {
		return string(*c.Signing.KeyPassword), nil
	}
	file, ok := a.Stdin.(*os.File)
	if !ok || !IsTerminal(file) {
		return "", nil
	}
	fmt.Fprint(a.Stderr, prompt)
	defer fmt.Fprintln(a.Stderr)
	return readPassword(ctx, int(file.Fd()))
}

// readPassword reads a line without echo. If ctx ends first, it restores the
// terminal; the read itself ends with the process.
func readPassword(ctx context.Context, terminal int) (string, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return "", err
	}
	password, err := await(ctx, func() ([]byte, error) { return term.ReadPassword(terminal) })
	if ctx.Err() != nil {
		err = errors.Join(err, term.Restore(terminal, before))
	}
	return string(password), err
}

// ErrNoKey says that no private key is configured.
var ErrNoKey = WithHint(Usagef("no private key"),
	"give --key FILE, or TAURI_SIGNING_PRIVATE_KEY (the key itself or a path); `tsmon keys generate` creates one")
