package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/cmd/tsmon/doctor"
)

// goodCaching is what a sound server adds.
func goodCaching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		next.ServeHTTP(w, r)
	})
}

// serving starts a server below whose path /desktop the storage is, with a release.
func serving(t *testing.T, c *clinic, change func(http.Handler) http.Handler) *httptest.Server {
	t.Helper()
	files := http.StripPrefix("/desktop", http.FileServer(http.Dir(c.storage)))
	server := httptest.NewServer(change(files))
	t.Cleanup(server.Close)
	c.publish(server.URL + "/desktop")
	c.environ["TSMON_PUBLIC_URL"] = server.URL + "/desktop"
	return server
}

func TestPublicAddress(t *testing.T) {
	c := newClinic(t)
	server := serving(t, c, goodCaching)
	for _, text := range []string{"serves stable as it is in the store", "is cached for 60 s at most", "serves 1 bundle of 1.0.0, in parts too"} {
		c.want(doctor.OK, "public address", text)
	}
	c.want(doctor.Warning, "public address", "is not https")
	if r := c.examine(); r.Errors > 0 {
		t.Error(listed(r))
	}

	// The address that the mend names works.
	for _, wrong := range []string{"/desktop/stable", "/desktop/stable/latest.json"} {
		c.environ["TSMON_PUBLIC_URL"] = server.URL + wrong
		mend := c.want(doctor.Error, "public address", "answers with status 404")
		address, ok := strings.CutPrefix(mend, "set public_url (TSMON_PUBLIC_URL) to ")
		if !ok {
			t.Fatal(mend)
		}
		c.environ["TSMON_PUBLIC_URL"] = address
		c.want(doctor.OK, "public address", "serves stable as it is in the store")
	}
	c.environ["TSMON_PUBLIC_URL"] = server.URL // where no address can be guessed
	if mend := c.want(doctor.Error, "public address", "answers with status 404"); !strings.Contains(mend, "PUBLIC_URL/stable/latest.json") {
		t.Error(mend)
	}
	// follows: set public_url (TSMON_PUBLIC_URL) to …the address where clients find the root of the storage
	c.environ["TSMON_PUBLIC_URL"] = server.URL + "/desktop"
	c.want(doctor.OK, "public address", "serves stable as it is in the store")
}

// TestPublicFaults: each fault of a public address is told apart.
func TestPublicFaults(t *testing.T) {
	for name, k := range map[string]struct {
		change func(http.Handler) http.Handler
		level  doctor.Level
		text   string
		mend   string
	}{
		"no caching":       {func(next http.Handler) http.Handler { return next }, doctor.Warning, "has no Cache-Control", "max-age=60"},
		"cached for a day": {header("Cache-Control", "public, max-age=86400"), doctor.Warning, "may be kept by caches for longer than 60 s", "max-age=60"},
		"cached by a CDN":  {header("Cache-Control", "max-age=10, s-maxage=3600"), doctor.Warning, "may be kept by caches for longer than 60 s", "max-age=60"},
		"not cached":       {header("Cache-Control", "no-store"), doctor.OK, "is not cached", ""},
		"private":          {answering(http.StatusForbidden), doctor.Error, "refuses to answer without credentials (status 403)", "TSMON_UPDATES_TOKEN"},
		"failing":          {answering(http.StatusServiceUnavailable), doctor.Error, "answers with status 503", "trusted_keys"},
		"something else":   {body("<html>"), doctor.Error, "serves something else than the manifest", "public_url"},
		"whole only": {func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del("Range")
				next.ServeHTTP(w, r)
			})
		}, doctor.Warning, "1 of 1 bundles are served only whole", "Range"},
		"no bundles": {func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/releases/") {
					http.NotFound(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
		}, doctor.Error, "the bundle for linux-x86_64 is not served (status 404)", "releases/"},
		"redirects in a circle": {func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
		}, doctor.Error, "redirects more than 10 times", "check public_url"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClinic(t)
			var mended atomic.Bool
			serving(t, c, func(next http.Handler) http.Handler {
				faulty, sound := k.change(next), goodCaching(next)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if mended.Load() {
						sound.ServeHTTP(w, r)
						return
					}
					faulty.ServeHTTP(w, r)
				})
			})
			if mend := c.want(k.level, "public address", k.text); !strings.Contains(mend, k.mend) {
				t.Errorf("the mend is %q", mend)
			}
			// follows: serve latest.json with Cache-Control:
			// follows: let the server honour Range requests, as MinIO, S3, nginx and `tsmon serve` do
			// follows: serve everything below releases/ of the storage, as it serves latest.json
			// follows: the log of the server there says why; `tsmon serve` needs the same storage and trusted_keys as here. If its records have seen a longer log, or another one, as before a restore, it names the `tsmon channel verify … --from … --accept` that gives that up
			// follows: check public_url (TSMON_PUBLIC_URL), the server there and the network
			mended.Store(true)
			c.want(doctor.OK, "public address", "serves stable as it is in the store")
			c.want(doctor.OK, "public address", "is cached for 60 s at most")
			c.want(doctor.OK, "public address", "serves 1 bundle of 1.0.0, in parts too")
		})
	}
}

func header(name, value string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			next.ServeHTTP(w, r)
		})
	}
}

func answering(status int) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
}

func body(text string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
}

// TestOlderManifest: a cache that keeps an older entry is a warning.
func TestOlderManifest(t *testing.T) {
	c := newClinic(t)
	var older []byte
	serving(t, c, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(older) })
	})
	var err error
	if older, err = os.ReadFile(filepath.Join(c.storage, "stable", "latest.json")); err != nil {
		t.Fatal(err)
	}
	c.move("1.1.0")
	c.want(doctor.Warning, "public address", "serves 1.0.0 (entry 1), where the store has 1.1.0 (entry 2)")
	// follows: wait a minute, then run `tsmon doctor` again; if it stays, have the cache there honour Cache-Control:
	if older, err = os.ReadFile(filepath.Join(c.storage, "stable", "latest.json")); err != nil {
		t.Fatal(err)
	}
	c.want(doctor.OK, "public address", "serves stable as it is in the store")
}

// TestToken: the token goes to the public address, and nowhere else.
func TestToken(t *testing.T) {
	c := newClinic(t)
	var leaked bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = leaked || r.Header.Get("Authorization") != ""
		http.FileServer(http.Dir(c.storage)).ServeHTTP(w, r)
	}))
	t.Cleanup(other.Close)
	serving(t, c, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer hush" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, other.URL+strings.TrimPrefix(r.URL.Path, "/desktop"), http.StatusFound)
		})
	})
	c.want(doctor.Error, "public address", "refuses to answer without credentials (status 401)")
	// follows: set server.updates.token (TSMON_UPDATES_TOKEN) to the token that the server there wants
	c.environ["TSMON_UPDATES_TOKEN"] = "wrong"
	c.want(doctor.Error, "public address", "refuses the configured token (status 401)")
	// follows: set server.updates.token (TSMON_UPDATES_TOKEN) to the token of the server there
	c.environ["TSMON_UPDATES_TOKEN"] = "hush"
	c.want(doctor.OK, "public address", "serves stable as it is in the store, after 1 redirect to "+strings.TrimPrefix(other.URL, "http://"))
	if leaked {
		t.Error("the token was sent elsewhere")
	}
}

// TestNobodyListens: before a server runs, doctor says to start it.
func TestNobodyListens(t *testing.T) {
	c := newClinic(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	c.environ["TSMON_PUBLIC_URL"] = "http://" + address
	// follows: start the server there, such as `…`; if one runs elsewhere, correct public_url (TSMON_PUBLIC_URL)
	if mend := c.want(doctor.Error, "public address", "connection refused"); !strings.HasPrefix(mend, "start the server there, such as `tsmon serve --listen "+address+"`") {
		t.Errorf("the mend is %q", mend)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	c.want(doctor.OK, "public address", "a server answers")
}

// TestCertificates: an unknown authority is an error, a certificate that ends soon a
// warning.
func TestCertificates(t *testing.T) {
	c := newClinic(t)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	c.environ["TSMON_PUBLIC_URL"] = server.URL
	if mend := c.want(doctor.Error, "public address", "clients can't reach it"); !strings.Contains(mend, "public authority") {
		t.Error(mend)
	}

	folder := t.TempDir()
	c.environ["TSMON_TLS_CERT"], c.environ["TSMON_TLS_KEY"] = filepath.Join(folder, "c.pem"), filepath.Join(folder, "k.pem")
	c.want(doctor.Error, "server", "no such file")
	// follows: name PEM files of a certificate and its key (TSMON_TLS_CERT and TSMON_TLS_KEY)
	certificate(t, folder, 24*5*time.Hour)
	c.want(doctor.Warning, "server", "the certificate ends in 4 days")
	// follows: renew it, and check that its renewal works
	pair := certificate(t, folder, 24*90*time.Hour)
	c.want(doctor.OK, "server", "the certificate is valid for another 89 days")

	// A server that runs with it is asked, though its name is another.
	status, body := http.StatusServiceUnavailable, `{"status":"failing","backends":{"series":"failing","records":"ok"}}`
	running := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && r.URL.Query().Get("for") == "monitoring" {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return
		}
		_, _ = w.Write([]byte(`{"status":"ok","backends":{}}`))
	}))
	startTLS(running, pair)
	t.Cleanup(running.Close)
	c.environ["TSMON_LISTEN"] = running.Listener.Addr().String()
	c.want(doctor.OK, "server", "is ready for updates")
	c.want(doctor.Error, "server", "the server is not ready: series")

	status, body = http.StatusBadRequest, `{"error1":{"message":"for has to be updates"}}`
	c.want(doctor.OK, "server", "is not for monitoring")
	status, body = http.StatusNotFound, "not found"
	c.want(doctor.OK, "server", "something else than `tsmon serve` answers")
}

// startTLS starts a server with a certificate.
func startTLS(server *httptest.Server, pair tls.Certificate) {
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
}

// certificate writes a certificate for another machine, and its key, to a folder.
func certificate(t *testing.T, folder string, life time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"scada.example.com"}, NotAfter: time.Now().Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(folder, "c.pem"), "CERTIFICATE", der)
	writePEM(t, filepath.Join(folder, "k.pem"), "PRIVATE KEY", secret)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
