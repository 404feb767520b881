package record

import (
	"context"
	"fmt"
)

// Secrets keeps what several servers share and nobody else may know. What may not be read
// in a copy of the records either the caller encrypts: see package vault.
type Secrets interface {
	// Secret returns what is kept under a name. ErrNotFound if there is nothing.
	Secret(ctx context.Context, name string) ([]byte, error)

	// CreateSecret keeps a value under a name, unless there is one, and returns what is
	// kept there.
	CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error)

	// ReplaceSecret replaces a value, and reports false if another one is kept.
	ReplaceSecret(ctx context.Context, name string, old, value []byte) (bool, error)
}

const (
	maxSecretName = 64       // bytes
	maxSecret     = 64 << 10 // bytes
)

// ValidSecret reports why a value can't be kept under a name.
func ValidSecret(name string, value []byte) error {
	switch {
	case name == "" || len(name) > maxSecretName:
		return fmt.Errorf("%w: the name of a secret has %d bytes, not 1 to %d", ErrInvalid, len(name), maxSecretName)
	case len(value) == 0 || len(value) > maxSecret:
		return fmt.Errorf("%w: a secret has %d bytes, not 1 to %d", ErrInvalid, len(value), maxSecret)
	}
	return text("name", name)
}
