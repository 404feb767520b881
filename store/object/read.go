package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge says that an object is larger than the caller allows.
var ErrTooLarge = errors.New("the object is too large")

// ReadAll reads an object of at most limit bytes. For a larger one it returns ErrTooLarge and
// the Info, without reading the object.
func ReadAll(ctx context.Context, s Store, key string, limit int64) ([]byte, Info, error) {
	body, info, err := s.Get(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	defer body.Close()
	data := new(bytes.Buffer)
	if info.Size <= limit {
		data.Grow(int(info.Size) + bytes.MinRead)
		_, err = data.ReadFrom(io.LimitReader(body, limit+1))
	}
	switch {
	case err != nil:
		return nil, info, fmt.Errorf("read %s: %w", key, err)
	case max(info.Size, int64(data.Len())) > limit:
		return nil, info, fmt.Errorf("read %s: %w: more than %d bytes", key, ErrTooLarge, limit)
	}
	return data.Bytes(), info, nil
}
