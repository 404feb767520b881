// Package vault keeps secrets of servers in the records, encrypted with an outer secret that
// is not in the records. A copy of the records reveals none of them.
//
// A value is sealed with AES-256-GCM, with a random nonce and the name of the row as
// additional data, under a key that HKDF-SHA256 derives from the outer secret. It begins
// with the format (one byte, 1) and the id of the key (eight bytes). With several outer
// secrets the first seals and all of them open, so the outer secret can be changed while
// servers run: put the new one first everywhere, call Renew for each row, then remove the old.
package vault

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"tsmon/store/record"
)

// ErrSealed says that no outer secret opens a value: it was sealed with another one, or was
// changed.
var ErrSealed = errors.New("sealed with a secret other than TSMON_SECRET, or was changed")

const (
	minSecret = 32 // bytes of an outer secret
	format    = 1
	idSize    = 8 // bytes of a key's id
)

// Vault opens and seals values.
type Vault struct {
	records record.Secrets
	keys    []sealer // the first seals
}

// sealer is a key.
type sealer struct {
	cipher.AEAD
	head []byte // the format and the id, with which its values begin
}

// New returns a vault for outer secrets, the current one first.
func New(records record.Secrets, secrets []string) (*Vault, error) {
	v := &Vault{records: records}
	for i, secret := range secrets {
		if len(secret) < minSecret {
			return nil, fmt.Errorf("secret %d has fewer than %d bytes", i+1, minSecret)
		}
		derived, err := hkdf.Key(sha256.New, []byte(secret), nil, "tsmon vault 1", 32+idSize)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(derived[:32])
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, sealer{aead, append([]byte{format}, derived[32:]...)})
	}
	if len(v.keys) == 0 {
		return nil, errors.New("no secret is set")
	}
	return v, nil
}

func (s sealer) seal(name string, text []byte) []byte {
	return s.Seal(bytes.Clone(s.head), nil, text, []byte(name)) //nolint:gosec // Seal makes the nonce itself
}

// open returns the plain text of a value, and the key that sealed it.
func (v *Vault) open(name string, value []byte) (text []byte, by sealer, err error) {
	for _, key := range v.keys {
		if sealed, ok := bytes.CutPrefix(value, key.head); ok {
			if text, err := key.Open(nil, nil, sealed, []byte(name)); err == nil {
				return text, key, nil
			}
		}
	}
	return nil, sealer{}, fmt.Errorf("the secret %s of the records is %w", name, ErrSealed)
}

// Row is a value of a vault.
type Row struct {
	vault *Vault
	name  string
}

// Row returns the value with a name.
func (v *Vault) Row(name string) Row { return Row{v, name} }

// Get returns the value. record.ErrNotFound if there is none, ErrSealed if it can't be
// opened.
func (r Row) Get(ctx context.Context) ([]byte, error) {
	value, err := r.vault.records.Secret(ctx, r.name)
	if err != nil {
		return nil, err
	}
	text, _, err := r.vault.open(r.name, value)
	return text, err
}

// Create stores a value unless there is one, and returns the stored value.
func (r Row) Create(ctx context.Context, text []byte) ([]byte, error) {
	if kept, err := r.Get(ctx); !errors.Is(err, record.ErrNotFound) {
		return kept, err
	}
	value, err := r.vault.records.CreateSecret(ctx, r.name, r.vault.keys[0].seal(r.name, text))
	if err != nil {
		return nil, err
	}
	kept, _, err := r.vault.open(r.name, value)
	return kept, err
}

// maxTries bounds the attempts to replace a value while others replace it.
const maxTries = 10

var errBusy = errors.New("others are changing the secret")

// Replace replaces the value by the result of change, which it may call several times.
func (r Row) Replace(ctx context.Context, change func(text []byte) ([]byte, error)) error {
	return r.replace(ctx, func(text []byte, _ sealer) ([]byte, error) { return change(text) })
}

func (r Row) replace(ctx context.Context, change func(text []byte, by sealer) ([]byte, error)) error {
	for range maxTries {
		value, err := r.vault.records.Secret(ctx, r.name)
		if err != nil {
			return err
		}
		text, by, err := r.vault.open(r.name, value)
		if err == nil {
			text, err = change(text, by)
		}
		if err != nil || text == nil {
			return err
		}
		if replaced, err := r.vault.records.ReplaceSecret(ctx, r.name, value, r.vault.keys[0].seal(r.name, text)); replaced || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s", errBusy, r.name)
}

// Renew seals the value with the first outer secret if it was sealed with another. It does
// nothing if there is no value.
func (r Row) Renew(ctx context.Context) (renewed bool, err error) {
	err = r.replace(ctx, func(text []byte, by sealer) ([]byte, error) {
		if renewed = !bytes.Equal(by.head, r.vault.keys[0].head); renewed {
			return text, nil
		}
		return nil, nil
	})
	if errors.Is(err, record.ErrNotFound) {
		err = nil
	}
	return renewed && err == nil, err
}
