package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/s3"
)

// load reads the configuration.
func (a *app) load() (*config.Config, error) {
	c, err := config.Load(a.configPath, a.environ)
	if err != nil {
		return nil, &hinted{&usageError{err}, "see README.md for a configuration, `tsmon help` for the environment"}
	}
	return c, checkChannels(c)
}

// checkChannels holds what the file says of channels to the rules of the rooms
// that use it.
func checkChannels(c *config.Config) error {
	for name, channel := range c.Channels {
		if err := channels.CheckName(name); err != nil {
			return &usageError{fmt.Errorf("channels: %w", err)}
		}
		for _, target := range channel.Targets {
			if _, err := manifest.ParseKey(target); err != nil {
				return &usageError{fmt.Errorf("channels.%s.targets: %w", name, err)}
			}
		}
	}
	if _, err := guards(c); err != nil {
		return err
	}
	for _, kind := range c.BundleTypes {
		if !slices.Contains(manifest.BundleTypes(), kind) {
			return usagef("bundle_types: %q is none of %s", kind, strings.Join(manifest.BundleTypes(), ", "))
		}
	}
	return nil
}

// openStore joins a storage setting to its adapter.
func openStore(_ context.Context, storage string) (object.Store, error) {
	if strings.HasPrefix(storage, "s3:") {
		store, err := s3.Open(storage, s3.Limits{})
		if err != nil {
			return nil, &hinted{&usageError{err}, "write it like s3://BUCKET/PREFIX?endpoint=https://minio.example.com&region=us-east-1"}
		}
		return store, nil
	}
	if scheme, _, ok := strings.Cut(storage, "://"); ok {
		return nil, usagef("storage is s3://BUCKET/PREFIX?endpoint=URL or a directory, not %s://…", scheme)
	}
	return dir.Open(storage)
}

// openPresigner returns what makes the addresses that clients are sent to, nil if
// they are not.
func openPresigner(c *config.Config) (object.Presigner, error) {
	if c.Server.Updates.Redirect != config.RedirectPresigned {
		return nil, nil
	}
	presigner, err := s3.OpenPresigner(c.Storage, c.Server.Updates.PresignEndpoint, s3.Limits{})
	if err != nil {
		return nil, &hinted{&usageError{err}, "write TSMON_UPDATES_PRESIGN_ENDPOINT like https://files.example.com, by which clients reach the server of the bucket"}
	}
	return presigner, nil
}

// publisher puts together what the release commands work with.
func (a *app) publisher(ctx context.Context, p *progress) (*release.Publisher, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.publisherFor(ctx, c, p)
}

func (a *app) publisherFor(ctx context.Context, c *config.Config, p *progress) (*release.Publisher, error) {
	keys, err := keyring(c.TrustedKeys)
	if err != nil {
		return nil, err
	}
	store, err := a.openStore(ctx, c.Storage)
	if err != nil {
		return nil, err
	}
	policies := map[string]release.Policy{}
	for name, channel := range c.Channels {
		policies[name] = release.Policy{Targets: channel.Targets, Prerelease: channel.Prerelease, Follows: channel.Follows}
	}
	return &release.Publisher{
		Store: store, PublicURL: c.PublicURL, Keys: keys, Policies: policies,
		Who: a.who(), Now: a.now, Transferred: p.transferred, Step: p.step,
	}, nil
}

// httpClient waits at most 30 s for the head of an answer.
func httpClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	return &http.Client{Transport: transport}
}

// keyring reads the trusted keys, each itself or a file that holds it.
func keyring(lines []string) (signing.Keyring, error) {
	texts := make([]string, len(lines))
	for i, line := range lines {
		text, err := textOrFile(line)
		if err != nil {
			return nil, fmt.Errorf("trusted key %d: %w", i+1, err)
		}
		texts[i] = text
	}
	keys, err := signing.ParseKeyring(texts)
	if err != nil {
		return nil, &usageError{err}
	}
	return keys, nil
}

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 64 << 10

// textOrFile returns the content of the file of that name, or the text itself
// where there is none.
func textOrFile(text string) (string, error) {
	if len(text) > 4096 || strings.ContainsAny(text, "\n\x00") {
		return text, nil
	}
	info, err := os.Stat(text)
	if err != nil || !info.Mode().IsRegular() {
		return text, nil
	}
	return keyFile(text)
}

// keyFile reads a key's file. A key that stands where its path belongs is not
// shown.
func keyFile(path string) (string, error) {
	if keyLike.MatchString(path) {
		return "", &hinted{usagef("a key stands where the path of its file belongs"), "TAURI_SIGNING_PRIVATE_KEY takes the key itself"}
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err == nil && len(data) > maxKeyFile {
		err = fmt.Errorf("%s: larger than a key", path)
	}
	return string(data), err
}

// keyLike matches keys in any of their forms, also cut or with line breaks.
var keyLike = regexp.MustCompile(`untrusted comment|^[\sA-Za-z0-9+/=]{100,}$|\n`)

// privateKey reads and opens the signing key: from the file, if one is named,
// else from the environment. It returns nil if there is none.
func (a *app) privateKey(ctx context.Context, c *config.Config, file string) (*signing.PrivateKey, error) {
	unlock, err := a.lockedKey(ctx, c, file)
	if err != nil || unlock == nil {
		return nil, err
	}
	key, err := unlock()
	return &key, err
}

// lockedKey reads the signing key and asks for its password, and leaves the
// work of opening it, a tenth of a second for a Tauri key, to the caller.
func (a *app) lockedKey(ctx context.Context, c *config.Config, file string) (unlock func() (signing.PrivateKey, error), err error) {
	source, text, err := privateKeyText(c, file)
	if err != nil || text == "" {
		return nil, err
	}
	unlock, err = a.locked(ctx, c, text)
	if err != nil {
		err = fmt.Errorf("%s: %w", source, err)
	}
	return unlock, err
}

func (a *app) locked(ctx context.Context, c *config.Config, text string) (unlock func() (signing.PrivateKey, error), err error) {
	file, err := signing.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	password := ""
	if file.Encrypted() {
		if password, err = a.password(ctx, c, "Password of the private key: "); err != nil {
			return nil, err
		}
	}
	return func() (signing.PrivateKey, error) { return file.Decrypt(password) }, nil
}

// privateKeyText returns the signing key as it is kept, and where it is from.
// A literal key is not shown, even where it is none.
func privateKeyText(c *config.Config, file string) (source, text string, err error) {
	switch {
	case file != "":
		text, err = keyFile(file)
		return file, text, err
	case c.Signing.Key != "":
		literal := string(c.Signing.Key)
		if text, err = textOrFile(literal); text != literal {
			return literal, text, err
		}
		return "the key in TAURI_SIGNING_PRIVATE_KEY, which names no file", literal, err
	case c.Signing.KeyPath != "":
		text, err = keyFile(c.Signing.KeyPath)
		return c.Signing.KeyPath, text, err
	}
	return "", "", nil
}

// password comes from the environment, else it is asked for on a terminal
// without echo, else it is empty, as it is for keys that were made without one.
func (a *app) password(ctx context.Context, c *config.Config, prompt string) (string, error) {
	if c.Signing.KeyPassword != nil {
		return string(*c.Signing.KeyPassword), nil
	}
	file, ok := a.stdin.(*os.File)
	if !ok || !isTerminal(file) {
		return "", nil
	}
	fmt.Fprint(a.stderr, prompt)
	defer fmt.Fprintln(a.stderr)
	return readPassword(ctx, int(file.Fd()))
}

// readPassword reads a line without echo. An interrupt ends the wait and gives
// the terminal its echo back; the read itself ends with the process.
func readPassword(ctx context.Context, terminal int) (string, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return "", err
	}
	type answer struct {
		password []byte
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		password, err := term.ReadPassword(terminal)
		answers <- answer{password, err}
	}()
	select {
	case a := <-answers:
		return string(a.password), a.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(terminal, before))
	}
}

// who is written to the log: the actor of a CI run, else user and machine.
func (a *app) who() string {
	for _, name := range []string{"GITHUB_ACTOR", "GITLAB_USER_LOGIN"} {
		if actor := a.variable(name); actor != "" {
			return actor + " (CI)"
		}
	}
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

func (a *app) variable(name string) string {
	for _, pair := range a.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

var errNoKey = errors.New("no private key")

func noKey() error {
	return &hinted{&usageError{errNoKey}, "give --key FILE, or TAURI_SIGNING_PRIVATE_KEY (the key itself or a path); `tsmon keys generate` makes one"}
}
