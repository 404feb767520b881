package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// ErrUnconditional means that the store ignores write conditions and overwrites objects.
var ErrUnconditional = errors.New("the store ignores If-None-Match or If-Match, so that two publishers could overwrite each other")

// CheckConditions tests that the store honours the conditions of Create and Swap. data is the
// content, at most MaxSwap bytes, of an existing object that never changes. CheckConditions
// tries to create the object again, and to swap it from an ETag that no object has. If either
// succeeds the error is ErrUnconditional, and the object is the same as before.
func CheckConditions(ctx context.Context, s Store, key string, data []byte, attrs Attributes) error {
	_, err := s.Create(ctx, key, bytes.NewReader(data), int64(len(data)), attrs)
	if err := refused(key, err, fs.ErrExist); err != nil {
		return err
	}
	_, err = s.Swap(ctx, key, "00000000000000000000000000000000", data, attrs)
	return refused(key, err, ErrChanged)
}

// refused returns nil if a conditional write failed as expected.
func refused(key string, err, want error) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w", key, ErrUnconditional)
	case errors.Is(err, want):
		return nil
	default:
		return err
	}
}
