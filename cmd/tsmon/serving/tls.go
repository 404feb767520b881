package serving

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
)

// certificate reloads its files when they change, so that a renewal needs no restart.
type certificate struct {
	files config.TLS
	log   *slog.Logger

	mu     sync.Mutex
	looked time.Time    // when the files were last checked
	stamp  [2]time.Time // their modification times
	loaded *tls.Certificate
}

// lookAgain is how often the files are checked.
const lookAgain = 30 * time.Second

func listenTLS(listener net.Listener, files config.TLS, log *slog.Logger) (net.Listener, *certificate, error) {
	c := &certificate{files: files, log: log}
	if err := c.load(); err != nil {
		return nil, nil, cli.WithHint(cli.Given(fmt.Errorf("server.tls: %w", err)), "TSMON_TLS_CERT and TSMON_TLS_KEY name PEM files")
	}
	return tls.NewListener(listener, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}), c, nil
}

// get returns the certificate. While the files can't be read, as during a renewal, it
// is the previous one.
func (c *certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= lookAgain {
		if err := c.load(); err != nil {
			c.log.Error("the certificate was not renewed", "error", err)
		}
	}
	return c.loaded
}

// reload loads the files if they changed, and reports whether they did.
func (c *certificate) reload() (renewed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.loaded
	err = c.load()
	return c.loaded != before, err
}

func (c *certificate) load() error {
	c.looked = time.Now()
	var stamp [2]time.Time
	for i, path := range []string{c.files.Cert, c.files.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		stamp[i] = info.ModTime()
	}
	if stamp == c.stamp {
		return nil
	}
	loaded, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return err
	}
	c.loaded, c.stamp = &loaded, stamp
	return nil
}
