package token_test

import (
	"errors"
	"strings"
	"testing"

	"tsmon/api/monitor/token"
)

// FuzzVerify accepts nothing but the tokens that the keys have signed, byte for
// byte.
func FuzzVerify(f *testing.F) {
	k := known(f)
	signed := map[string]bool{
		forge(f, edHeader(), payload(), byEd25519(edKey)):  true,
		forge(f, hsHeader(), payload(), byHS256(hsSecret)): true,
	}
	for text := range signed {
		parts := strings.Split(text, ".")
		f.Add(text)
		f.Add(text + "=")
		f.Add(text[:len(text)-1] + "\n")
		f.Add(parts[0] + "." + parts[1] + ".")
		f.Add(parts[1] + "." + parts[0] + "." + parts[2])
	}
	f.Add(forge(f, edHeader().with("alg", "none"), payload(), noSignature))
	f.Add(forge(f, edHeader().with("alg", "HS256"), payload(), byHS256(edKey[32:])))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := k.Verify(text)
		if signed[text] != (err == nil) {
			t.Errorf("signed: %v, but %+v, %v", signed[text], c, err)
		}
		if err != nil && (!errors.Is(err, token.ErrToken) || c != token.Claims{}) {
			t.Errorf("refused with %+v, %v", c, err)
		}
	})
}
