//go:build !race

package signing_test

import (
	"testing"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// minisign's own keys take the 1 GiB that is allowed at most. With every access
// watched by the race detector that would last half a minute.
func TestOpensMinisignKey(t *testing.T) {
	t.Parallel()
	sealed, err := signing.ParsePrivateKey(signingtest.Testdata(t, "minisign/minisign.key"))
	if err != nil {
		t.Fatal(err)
	}
	checkOpens(t, sealed, signingtest.Testdata(t, "minisign/password.txt"), signingtest.Keyring(t, "minisign/minisign.pub")[0].PublicKey)
}
