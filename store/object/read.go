package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
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

// Folders yields the names of the folders below a prefix that ends with a slash or is empty, in the
// order of their keys, with one list request each. It yields at most one error, as the last element.
func Folders(ctx context.Context, s Store, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after, more := "", true; more; {
			more = false
			for info, err := range s.List(ctx, prefix, after) {
				folder, _, found := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
				if err == nil && !found {
					continue
				}
				more = yield(folder, err) && err == nil
				after = prefix + folder + "0" // sorts behind all that is in the folder
				break
			}
		}
	}
}
