package record

import (
	"context"
	"fmt"
)

// Secrets keeps secrets that several servers share. The caller encrypts them where a copy of
// the records must not reveal them: see package vault.
type Secrets interface {
	// Secret returns the value with a name. ErrNotFound if there is none.
	Secret(ctx context.Context, name string) ([]byte, error)

	// CreateSecret stores a value unless the name has one, and returns the stored value.
	CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error)

	// ReplaceSecret replaces old with value, and reports whether old was stored.
	ReplaceSecret(ctx context.Context, name string, old, value []byte) (bool, error)
}

const (
	maxSecretName = 64       // bytes
	maxSecret     = 64 << 10 // bytes
)

// ValidSecret reports why a value can't be stored under a name.
func ValidSecret(name string, value []byte) error {
	switch {
	case name == "" || len(name) > maxSecretName:
		return fmt.Errorf("%w: the name of a secret must have 1 to %d bytes, not %d", ErrInvalid, maxSecretName, len(name))
	case len(value) == 0 || len(value) > maxSecret:
		return fmt.Errorf("%w: a secret must have 1 to %d bytes, not %d", ErrInvalid, maxSecret, len(value))
	}
	return text("name", name)
}
