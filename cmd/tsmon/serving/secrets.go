package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tsmon/api/monitor/token"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/durable"
	"tsmon/store/record"
	"tsmon/store/record/vault"
)

// Secrets are the credentials that clients send, besides access tokens.
type Secrets struct {
	AccessKey  string `json:"accesskey"`
	SecretKey  string `json:"secretkey"`
	WriteToken string `json:"write_token"` // of /api/v2/write; empty where the series are in InfluxDB
}

// tokenKeysSetting names the setting for the file of the keys of access tokens.
const tokenKeysSetting = "server.token_keys (TSMON_TOKEN_KEYS)"

// Names of the secrets in the vault.
const (
	tokensRow = "token keys"
	clientRow = "client secrets"
)

// openSecrets opens the keys of access tokens and returns the secrets of clients. What is not
// configured is read from the records, which all servers share, or from the data folder if there
// is no secret to encrypt it with. The first server generates it.
func openSecrets(ctx context.Context, c *config.Config, records record.Store, log *slog.Logger) (keys *token.Keys, set Secrets, err error) {
	shared, err := openVault(c, records)
	if err != nil {
		return nil, set, err
	}
	if shared != nil {
		renew(ctx, shared, log)
	} else if err = checkOpen(ctx, records); err != nil {
		return nil, set, err
	} else if cli.RecordsFile(c) == "" {
		log.Warn("the keys of access tokens and the secrets of clients are on this machine, but the records are on another: if other servers share the records, set TSMON_SECRET")
	}
	switch {
	case c.Server.TokenKeys != "":
		keys, err = token.Open(c.Server.TokenKeys)
	case shared != nil:
		keys = token.OpenShared(ctx, shared.Row(tokensRow))
	default:
		err = cli.NoFolder(tokenKeysSetting)
	}
	if err != nil {
		return nil, set, err
	}
	set, err = clientSecrets(ctx, c, shared)
	if errors.Is(err, record.ErrUnavailable) {
		log.Warn("until the records can be reached nothing can be uploaded or written", "error", err)
		err = nil
	}
	return keys, set, err
}

// checkOpen refuses local keys if the records contain keys of servers with a secret, since the
// tokens of one server would be invalid on another.
func checkOpen(ctx context.Context, records record.Secrets) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	for _, name := range []string{tokensRow, clientRow} {
		if _, err := records.Secret(ctx, name); err == nil {
			return cli.WithHint(cli.Refuse(fmt.Errorf("the records contain the %s of servers with a TSMON_SECRET, but none is set here", name)),
				"set TSMON_SECRET to that of the other servers")
		}
	}
	return nil // unknown while the records are down
}

// checkOpenFile is checkOpen for a command, which may run without records.
func checkOpenFile(ctx context.Context, c *config.Config) error {
	err := cli.WithRecords(ctx, c, func(records record.Store) error { return checkOpen(ctx, records) })
	if errors.Is(err, cli.ErrNoRecords) || errors.Is(err, record.ErrUnavailable) {
		return nil
	}
	return err
}

// clientSecrets returns the configured secrets, completed with stored ones.
func clientSecrets(ctx context.Context, c *config.Config, shared *vault.Vault) (Secrets, error) {
	set := Secrets{AccessKey: string(c.Server.Upload.AccessKey), SecretKey: string(c.Server.Upload.SecretKey)}
	elsewhere := cli.SeriesFile(c) == "" // InfluxDB has its own address for writing, and its own tokens
	if !elsewhere {
		set.WriteToken = string(c.Server.Series.Token)
	}
	if set.AccessKey != "" && (elsewhere || set.WriteToken != "") {
		return set, nil
	}
	var kept Secrets
	var err error
	switch {
	case shared != nil:
		kept, err = sharedSecrets(ctx, shared)
	case c.Data == "":
		err = cli.NoFolder("server.upload (TSMON_UPLOAD_ACCESS_KEY)")
	default:
		kept, err = keptSecrets(filepath.Join(c.Data, "secrets.json"))
	}
	if err != nil {
		return Secrets{}, err
	}
	if set.AccessKey == "" {
		set.AccessKey, set.SecretKey = kept.AccessKey, kept.SecretKey
	}
	if !elsewhere && set.WriteToken == "" {
		set.WriteToken = kept.WriteToken
	}
	return set, nil
}

// openVault returns the vault in the records that the configured secrets open, nil if there are none.
func openVault(c *config.Config, records record.Secrets) (*vault.Vault, error) {
	if !c.Server.HasSecret() {
		return nil, nil
	}
	secrets := texts(c.Server.Secrets)
	if path := c.Server.SecretFile; path != "" {
		err := cli.CheckMode(path, 0o037, "640")
		var text []byte
		if err == nil {
			text, err = cli.ReadSmall(path)
		}
		if err != nil {
			return nil, cli.Given(fmt.Errorf("server.secret_file: %w", err))
		}
		secrets = strings.Fields(string(text))
	}
	v, err := vault.New(records, secrets)
	if err != nil {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("server.secret_file: %w", err)), "write a secret of 32 characters or more to the file, such as `openssl rand -base64 32` prints")
	}
	return v, nil
}

// renewTime bounds the encryption of secrets at the start.
const renewTime = 5 * time.Second

// renew encrypts secrets with the present secret that were encrypted with an older one.
func renew(ctx context.Context, shared *vault.Vault, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	for _, name := range []string{tokensRow, clientRow} {
		switch renewed, err := shared.Row(name).Renew(ctx); {
		case err != nil:
			log.Warn("a shared secret could not be encrypted with the new TSMON_SECRET", "secret", name, "error", err)
		case renewed:
			log.Info("a shared secret is encrypted with the new TSMON_SECRET", "secret", name)
		}
	}
}

// sharedSecrets returns the secrets that all servers share, or generates them.
func sharedSecrets(ctx context.Context, shared *vault.Vault) (kept Secrets, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	text, err := json.Marshal(newSecrets()) //nolint:gosec // it is encrypted
	if err == nil {
		text, err = shared.Row(clientRow).Create(ctx, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	return kept, explainVault(err)
}

// explainVault adds the hint for records that are encrypted with another secret.
func explainVault(err error) error {
	if errors.Is(err, vault.ErrSealed) {
		return cli.WithHint(err, "set TSMON_SECRET to what it was, or to NEW,OLD to change it")
	}
	return err
}

// keptSecrets reads the file, or creates it. Servers that start at the same time all
// get what the first one wrote.
func keptSecrets(path string) (Secrets, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writeJSON(durable.Create, path, newSecrets()); err != nil && !errors.Is(err, fs.ErrExist) {
			return Secrets{}, err
		}
	}
	if err := cli.CheckMode(path, 0o077, "600"); err != nil {
		return Secrets{}, err
	}
	text, err := cli.ReadSmall(path)
	if err != nil {
		return Secrets{}, err
	}
	var kept Secrets
	if json.Unmarshal(text, &kept) != nil || kept.AccessKey == "" || kept.SecretKey == "" || kept.WriteToken == "" {
		return Secrets{}, cli.WithHint(fmt.Errorf("%s must contain accesskey, secretkey and write_token", path), "move it away: the server creates a new one")
	}
	return kept, nil
}

// writeJSON writes a file that only its owner can read, by durable.Create or durable.Replace.
func writeJSON(write func(path string, mode fs.FileMode, content []byte) error, path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return write(path, 0o600, append(text, '\n'))
}
