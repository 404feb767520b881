package mqtt_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"tsmon/api/monitor/mqtt"
	"tsmon/store/servertest"
)

// TestTLS connects to a broker whose certificate is trusted, and to one whose
// certificate is not.
func TestTLS(t *testing.T) {
	certificates := httptest.NewTLSServer(nil) // it has one for 127.0.0.1
	t.Cleanup(certificates.Close)
	plain := fakeBroker(t, func(_ int, c peer) {
		c.Conn = tls.Server(c.Conn, &tls.Config{Certificates: certificates.TLS.Certificates})
		if c.welcome(packets.Connack{}) != nil {
			c.acknowledgeAll()
		}
	})
	url := strings.Replace(plain, "mqtt://", "mqtts://user:hunter2@", 1)
	roots := x509.NewCertPool()
	roots.AddCert(certificates.Certificate())
	p, err := mqtt.DialTrusting(t.Context(), mqtt.Options{URL: url, Log: silent}, roots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	mustPublish(t, p, "a", strings.Repeat("x", 100_000))

	var log servertest.Log
	p = dial(t, mqtt.Options{URL: url, Log: logTo(&log)})
	eventually(t, "it does not trust the broker", func() bool { return strings.Contains(log.String(), "certificate") })
	wantError(t, p.Ping(t.Context()), mqtt.ErrUnavailable)
	p.Close()
	if text := log.String(); strings.Contains(text, "hunter2") {
		t.Errorf("the log is:\n%s", text)
	}
}
