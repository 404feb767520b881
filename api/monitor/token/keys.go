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
	lookEvery    = time.Minute // at the file
	unknownEvery = time.Second // where a token names a key that is not known
)

// Keys issues and verifies tokens with the keys of a file. Its methods may be
// called concurrently. While one of them reads the file, the others go on with
// the keys that are there, except where a token names one that is not.
type Keys struct {
	// Now is the clock, time.Now by default. It is set before the first use.
	Now func() time.Time

	path      string
	parser    *jwt.Parser
	validator *jwt.Validator
	verified  *lru.Cache[[sha256.Size]byte, verified] // signatures take longer to verify than most answers
	live      atomic.Pointer[[]key]                   // newest first, never empty

	looking sync.Mutex // held while the file is read
	looked  time.Time  // last; zero before the first time
	failed  error      // of the last look
}

// Open reads the key file at path. Where there is none it makes one with a
// fresh Ed25519 key, and its folder, which nobody else may enter.
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
	k := &Keys{Now: time.Now, path: path}
	if k.verified, err = lru.New[[sha256.Size]byte, verified](maxVerified); err != nil {
		return nil, err
	}
	read := options(func() time.Time { return k.Now() })
	k.parser, k.validator = jwt.NewParser(read...), jwt.NewValidator(read...)
	k.live.Store(&keys)
	return k, nil
}

// current returns the keys, after a look at the file if that is due and nobody
// else is looking.
func (k *Keys) current() []key {
	if k.looking.TryLock() {
		k.look(lookEvery)
		k.looking.Unlock()
	}
	return *k.live.Load()
}

// find returns the key of a kid. For one that is not known it looks at the file
// sooner, and waits for whoever is looking.
func (k *Keys) find(kid string) (key, error) {
	named := func(k key) bool { return k.Kid == kid }
	keys := k.current()
	if i := slices.IndexFunc(keys, named); i >= 0 {
		return keys[i], nil
	}
	k.looking.Lock()
	k.look(unknownEvery)
	keys, failed := *k.live.Load(), k.failed
	k.looking.Unlock()
	if i := slices.IndexFunc(keys, named); i >= 0 {
		return keys[i], nil
	}
	if failed != nil {
		return key{}, fmt.Errorf("the key %.80q is not known, and there may be newer ones: %v", kid, failed)
	}
	return key{}, fmt.Errorf("the key %.80q is not known", kid)
}

// look reads the file unless the last look is younger than every. What can't be
// read leaves the keys as they are. The caller holds the lock.
func (k *Keys) look(every time.Duration) {
	now := k.Now()
	if age := now.Sub(k.looked); age >= 0 && age < every {
		return
	}
	k.looked = now
	var keys []key
	if keys, k.failed = readKeys(k.path); k.failed == nil {
		k.live.Store(&keys)
	}
}
