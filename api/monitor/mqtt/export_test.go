package mqtt

import (
	"context"
	"crypto/x509"
)

// DialTrusting is Dial with certificates to trust, for a URL of TLS.
func DialTrusting(ctx context.Context, o Options, roots *x509.CertPool) (*Client, error) {
	at, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	at.tls.RootCAs = roots
	return dial(ctx, at, o)
}

// HostileTopics are topics that nobody may publish to.
var HostileTopics = hostileTopics
