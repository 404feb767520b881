package token

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	lookEvery    = time.Minute // how often the file is read
	unknownEvery = time.Second // the same for a token whose key is unknown
)

// ErrKeys means, besides ErrToken, that the key of a token is unknown and newer keys
// can't be read: nobody knows whether the token is good.
var ErrKeys = errors.New("the keys can't be read")

// Keys issues and verifies tokens with the keys of a file, or with shared ones. Its
// methods may be called concurrently. While one of them reads the keys, the others use
// the present ones, except for a token whose key is unknown.
type Keys struct {
	// Now is the clock, time.Now by default. Set it before the first use.
	Now func() time.Time

	read      func() ([]key, error)
	parser    *jwt.Parser
	validator *jwt.Validator
	verified  *lru.Cache[[sha256.Size]byte, verified] // signatures take longer to verify than most answers
	live      atomic.Pointer[[]key]                   // newest first; empty only while shared ones were never read

	looking sync.Mutex // held while the keys are read
	looked  time.Time  // when they were last read
	failed  error      // of the last read
}

// Open reads the key file at path. If it is missing, Open creates it with a new
// Ed25519 key, and its folder with mode 0700.
func Open(path string) (*Keys, error) {
	keys, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(path); err == nil {
			keys, err = readKeys(path)
		}
	}
	if err != nil {
		return nil, err
	}
	return newKeys(keys, func() ([]key, error) { return readKeys(path) }), nil
}

// newKeys returns keys, which read reads again.
func newKeys(keys []key, read func() ([]key, error)) *Keys {
	k := &Keys{Now: time.Now, read: read}
	k.verified, _ = lru.New[[sha256.Size]byte, verified](maxVerified) // fails only for a size below one
	rules := []jwt.ParserOption{
		jwt.WithValidMethods([]string{algEdDSA, algHS256}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(party), jwt.WithAudience(party), jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(func() time.Time { return k.Now() }),
	}
	k.parser, k.validator = jwt.NewParser(rules...), jwt.NewValidator(rules...)
	k.live.Store(&keys)
	return k
}

// Digest returns a digest of the keys as they were last read.
func (k *Keys) Digest() (digest [sha256.Size]byte) {
	h := sha256.New()
	for _, key := range *k.live.Load() {
		fmt.Fprintf(h, "%s %s %s\n", key.Kid, key.Alg, key.Key)
	}
	h.Sum(digest[:0])
	return digest
}

// current returns the keys. It reads the file first if that is due and no other call
// is doing so.
func (k *Keys) current() []key {
	if k.looking.TryLock() {
		k.look(lookEvery)
		k.looking.Unlock()
	}
	return *k.live.Load()
}

// find returns the key with a kid. For an unknown kid it rereads the keys.
func (k *Keys) find(kid string) (key, error) {
	named := func(k key) bool { return k.Kid == kid }
	keys := k.current()
	if i := slices.IndexFunc(keys, named); i >= 0 {
		return keys[i], nil
	}
	keys, failed := k.reread()
	if i := slices.IndexFunc(keys, named); i >= 0 {
		return keys[i], nil
	}
	if failed != nil {
		return key{}, fmt.Errorf("the key %.80q is unknown, and %w: %w", kid, ErrKeys, failed)
	}
	return key{}, fmt.Errorf("the key %.80q is unknown", kid)
}

// reread returns the keys, which it reads first unless they were read less than a second
// ago, and why that failed. It waits for a call that is reading them.
func (k *Keys) reread() ([]key, error) {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.look(unknownEvery)
	return *k.live.Load(), k.failed
}

// look reads the keys unless they were read less than every ago. After a failure the keys
// stay as they are. The caller holds the lock.
func (k *Keys) look(every time.Duration) {
	now := k.Now()
	if age := now.Sub(k.looked); age >= 0 && age < every {
		return
	}
	k.looked = now
	var keys []key
	if keys, k.failed = k.read(); k.failed == nil {
		k.live.Store(&keys)
	}
}
