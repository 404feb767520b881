package record

import (
	"context"
	"fmt"
)

// Secrets keeps secrets that several servers share. The caller encrypts those that a copy of
// the records must not reveal: see package vault.
type Secrets interface {
	// Secret returns the value with a name. ErrNotFound if there is none.
	Secret(ctx context.Context, name string) ([]byte, error)

	// CreateSecret stores a value under a name, unless there is one, and returns the one
	// that is stored.
	CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error)

	// ReplaceSecret replaces old by value, and reports whether old was stored.
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
		return fmt.Errorf("%w: the name of a secret has %d bytes, not 1 to %d", ErrInvalid, len(name), maxSecretName)
	case len(value) == 0 || len(value) > maxSecret:
		return fmt.Errorf("%w: a secret has %d bytes, not 1 to %d", ErrInvalid, len(value), maxSecret)
	}
	return text("name", name)
}
