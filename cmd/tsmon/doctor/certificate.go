package doctor

import (
	"crypto/x509"
	"time"

	"tsmon/cmd/tsmon/cli"
)

// certificateLeft is how many days a certificate should still be valid.
const certificateLeft = 14

// validity reports how long a certificate is valid.
func validity(n *notes, c *x509.Certificate, now time.Time) {
	days := int(c.NotAfter.Sub(now).Hours() / 24)
	if days < certificateLeft {
		n.warn("renew it, and check that its renewal works", "the certificate ends in %s, on %s", cli.Count(days, "day", "days"), c.NotAfter.UTC().Format(time.DateOnly))
		return
	}
	n.ok("the certificate is valid for another %s", cli.Count(days, "day", "days"))
}
