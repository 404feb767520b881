package signing

import (
	"crypto/ed25519"
	"crypto/sha256"

	lru "github.com/hashicorp/golang-lru/v2"
)

// made remembers which signatures keys have made: a plan and a server look at the same
// ones again and again. A signature that is not good is never remembered.
var made, _ = lru.New[[sha256.Size]byte, struct{}](4096) // fails for sizes below 1 only

// madeComment reports whether the key made a signature and its trusted comment, by the
// global signature, which covers both and needs no bundle.
func (k PublicKey) madeComment(s Signature) bool {
	message := globalMessage(s.sig)
	id := sha256.Sum256(append(append(k.key.PublicKey[:], s.sig.GlobalSignature[:]...), message...))
	if _, found := made.Get(id); found {
		return true
	}
	if !ed25519.Verify(k.key.PublicKey[:], message, s.sig.GlobalSignature[:]) {
		return false
	}
	made.Add(id, struct{}{})
	return true
}
