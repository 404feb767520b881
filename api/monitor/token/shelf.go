package token

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Shelf stores the keys that several servers share, as a text like that of a key file.
type Shelf interface {
	// Create stores a text, unless there is one, and returns what is stored.
	Create(ctx context.Context, text []byte) ([]byte, error)

	// Replace replaces the text by what change makes of it. If another call replaced it
	// meanwhile, change is called again with the new text.
	Replace(ctx context.Context, change func(text []byte) ([]byte, error)) error
}

// shelfTime bounds a look at a shelf: a request waits for it.
const shelfTime = 2 * time.Second

// OpenShared opens the keys on a shelf, and puts a new Ed25519 key there if it is empty.
// That the shelf can't be reached is no error: until it can, Issue fails and the error
// of Verify is ErrKeys.
func OpenShared(ctx context.Context, shelf Shelf) *Keys {
	ctx = context.WithoutCancel(ctx)
	fresh := encodeKeys(newEntry(algEdDSA))
	k := newKeys(nil, func() ([]key, error) {
		ctx, cancel := context.WithTimeout(ctx, shelfTime)
		defer cancel()
		text, err := shelf.Create(ctx, fresh)
		if err != nil {
			return nil, err
		}
		return parseKeys(text)
	})
	k.current()
	return k
}

// RotateShared puts a new key of the same algorithm first on a shelf and returns its
// kid. The key that was first still verifies; an older one is removed.
func RotateShared(ctx context.Context, shelf Shelf) (kid string, err error) {
	err = shelf.Replace(ctx, func(text []byte) ([]byte, error) {
		keys, err := parseKeys(text)
		if err != nil {
			return nil, err
		}
		fresh := newEntry(keys[0].Alg)
		kid = fresh.Kid
		return encodeKeys(fresh, keys[0].entry), nil
	})
	if err != nil {
		return "", fmt.Errorf("rotate the shared keys: %w", err)
	}
	return kid, nil
}

func encodeKeys(entries ...entry) []byte {
	text, _ := json.MarshalIndent(keyFile{entries}, "", "  ") // strings never fail
	return append(text, '\n')
}
