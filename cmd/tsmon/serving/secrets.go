package serving

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/durable"
)

// Secrets are the credentials that clients send, besides access tokens.
type Secrets struct {
	AccessKey  string `json:"accesskey"`
	SecretKey  string `json:"secretkey"`
	WriteToken string `json:"write_token"` // of /api/v2/write
}

// openSecrets returns the configured secrets, and those in the data folder for the
// others. The first start generates them.
func openSecrets(c *config.Config) (Secrets, error) {
	set := Secrets{string(c.Server.Upload.AccessKey), string(c.Server.Upload.SecretKey), string(c.Server.Series.Token)}
	if set.AccessKey != "" && set.WriteToken != "" {
		return set, nil
	}
	if c.Data == "" {
		return Secrets{}, cli.NoFolder("server.upload (TSMON_UPLOAD_ACCESS_KEY)")
	}
	kept, err := keptSecrets(filepath.Join(c.Data, "secrets.json"))
	if err != nil {
		return Secrets{}, err
	}
	if set.AccessKey == "" {
		set.AccessKey, set.SecretKey = kept.AccessKey, kept.SecretKey
	}
	if set.WriteToken == "" {
		set.WriteToken = kept.WriteToken
	}
	return set, nil
}

// keptSecrets reads the file, or creates it. Servers that start at the same time all
// get what the first one wrote.
func keptSecrets(path string) (Secrets, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		text, err := json.MarshalIndent(Secrets{cli.RandomText(), cli.RandomText(), cli.RandomText()}, "", "  ") //nolint:gosec // with mode 0600
		if err != nil {
			return Secrets{}, err
		}
		if err := durable.Create(path, 0o600, append(text, '\n')); err != nil && !errors.Is(err, fs.ErrExist) {
			return Secrets{}, err
		}
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		err = cli.WithHint(fmt.Errorf("%s can be read by others", path), "chmod 600 "+path)
	}
	if err != nil {
		return Secrets{}, err
	}
	text, err := cli.ReadSmall(path)
	if err != nil {
		return Secrets{}, err
	}
	var kept Secrets
	if json.Unmarshal(text, &kept) != nil || kept.AccessKey == "" || kept.SecretKey == "" || kept.WriteToken == "" {
		return Secrets{}, cli.WithHint(fmt.Errorf("%s does not hold accesskey, secretkey and write_token", path), "move it away: the server creates a new one")
	}
	return kept, nil
}
