package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
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
)

// authority issues certificates. Processes with its file in SSL_CERT_FILE trust it.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	root *x509.Certificate
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "root.pem")}
	a.root = &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(24 * time.Hour)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.key = key
	der, err := x509.CreateCertificate(rand.Reader, a.root, a.root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns a certificate for an address, valid from now on for a duration.
func (a *authority) issue(address string, life time.Duration) *tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(address)}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, a.key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// TestDoctorCertificates: following doctor fixes each fault of the public address's certificate.
func TestDoctorCertificates(t *testing.T) {
	known, unknown := newAuthority(t), newAuthority(t)
	sound := known.issue("127.0.0.1", 90*24*time.Hour)
	var shown atomic.Pointer[tls.Certificate]
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}
	shown.Store(sound)
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)

	storage := t.TempDir()
	examine := func(address string) string {
		t.Helper()
		report, stderr, code := command(t, []string{"SSL_CERT_FILE=" + known.file, "TSMON_STORAGE=" + storage, "TSMON_PUBLIC_URL=" + address, "TSMON_LISTEN=127.0.0.1:9"}, "tsmon", "doctor")
		if code != 1 { // no key is trusted
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		return report
	}
	for mend, faulty := range map[string]*tls.Certificate{
		// follows: use a certificate of a public authority, and serve its whole chain
		"use a certificate of a public authority, and serve its whole chain": unknown.issue("127.0.0.1", 90*24*time.Hour),
		// follows: use a certificate for this host, or correct public_url (TSMON_PUBLIC_URL)
		"use a certificate for this host, or correct public_url (TSMON_PUBLIC_URL)": known.issue("192.0.2.1", 90*24*time.Hour),
		// follows: renew the certificate; if it is new, check the clock of this machine
		"renew the certificate; if it is new, check the clock of this machine": known.issue("127.0.0.1", -time.Hour),
	} {
		shown.Store(faulty)
		if report := examine(server.URL); !strings.Contains(report, "clients can't reach it") || !strings.Contains(report, "mend:  "+mend+"\n") {
			t.Errorf("without %q:\n%s", mend, report)
		}
		shown.Store(sound)
		if report := examine(server.URL); !strings.Contains(report, "public address: a server answers") || !strings.Contains(report, "public address: the certificate is valid for another 89 days") {
			t.Errorf("after %q:\n%s", mend, report)
		}
	}

	// follows: serve it over https; release builds of applications ask nothing else
	const https = "mend:  serve it over https; release builds of applications ask nothing else\n"
	if report := examine(plain.URL); !strings.Contains(report, https) {
		t.Error(report)
	}
	if report := examine(server.URL); strings.Contains(report, https) {
		t.Error(report)
	}
}
