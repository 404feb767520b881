package serving

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/durable"
)

// Secrets are what clients have to send, besides access tokens.
type Secrets struct {
	AccessKey  string `json:"accesskey"`
	SecretKey  string `json:"secretkey"`
	WriteToken string `json:"write_token"` // of /api/v2/write
}

// openSecrets returns the configured secrets, and for the others those in the data
// folder, which the first start generates.
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

// keptSecrets reads the file, or creates it. Servers that start at once all use what
// the first one wrote.
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
	file, err := os.Open(path)
	if err != nil {
		return Secrets{}, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return Secrets{}, cli.WithHint(errors.Join(err, fmt.Errorf("%s can be read by others", path)), "chmod 600 "+path)
	}
	text, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil {
		return Secrets{}, err
	}
	var kept Secrets
	if json.Unmarshal(text, &kept) != nil || kept.AccessKey == "" || kept.SecretKey == "" || kept.WriteToken == "" {
		return Secrets{}, cli.WithHint(fmt.Errorf("%s does not hold accesskey, secretkey and write_token", path), "move it away: the server generates a new one")
	}
	return kept, nil
}
