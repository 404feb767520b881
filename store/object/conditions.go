package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// ErrUnconditional says that the store overwrites where it was told not to.
var ErrUnconditional = errors.New("the store ignores If-None-Match or If-Match, so that two publishers could overwrite each other")

// CheckConditions proves that the store honours the conditions of Create and
// Swap. It is given a key whose object never changes and the very bytes that
// stand there, at most MaxSwap of them, and tries to write them again: once as
// a new object, once over an ETag that no store gives out. Both have to fail;
// where one succeeds the error is ErrUnconditional, and no harm is done, since
// the bytes are equal.
func CheckConditions(ctx context.Context, s Store, key string, data []byte, attrs Attributes) error {
	_, err := s.Create(ctx, key, bytes.NewReader(data), int64(len(data)), attrs)
	if err := refused(key, err, fs.ErrExist); err != nil {
		return err
	}
	_, err = s.Swap(ctx, key, "00000000000000000000000000000000", data, attrs)
	return refused(key, err, ErrChanged)
}

// refused is nil if a conditional write failed as it should.
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
