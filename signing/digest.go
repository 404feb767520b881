package signing

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"

	"golang.org/x/crypto/blake2b"
)

// A Digest is the BLAKE2b-512 hash of a bundle, the message of a prehashed
// signature.
type Digest [blake2b.Size]byte

// NewHash returns a hash whose sum is a Digest.
func NewHash() hash.Hash {
	h, err := blake2b.New512(nil)
	if err != nil {
		panic(err) // only for a MAC key that is too long
	}
	return h
}

// blockSize is the size of each of HashReader's two buffers.
const blockSize = 512 << 10

// HashReader reads r to its end and returns its digest and its length in bytes.
// Reading overlaps hashing, in constant memory. Only the caller's goroutine reads
// r, and checks ctx before each read.
//
// The error is the context's or wraps the reader's.
func HashReader(ctx context.Context, r io.Reader) (Digest, int64, error) {
	h := NewHash()
	size, err := copyAhead(ctx, h, r)
	if err != nil {
		return Digest{}, size, err
	}
	return sum(h), size, nil
}

func sum(h hash.Hash) (d Digest) {
	h.Sum(d[:0])
	return d
}

// copyAhead copies r to h, which runs in another goroutine until copyAhead returns.
func copyAhead(ctx context.Context, h hash.Hash, r io.Reader) (int64, error) {
	full, free, done := make(chan []byte, 1), make(chan []byte, 2), make(chan struct{})
	free <- make([]byte, blockSize)
	free <- make([]byte, blockSize)
	go func() {
		defer close(done)
		for block := range full {
			h.Write(block)
			free <- block[:blockSize]
		}
	}()
	defer func() {
		close(full)
		<-done
	}()
	for size := int64(0); ; {
		block := <-free
		n, err := fill(ctx, r, block)
		full <- block[:n]
		size += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return size, err
		}
	}
}

// maxEmptyReads is how often in a row a reader may return neither data nor error.
const maxEmptyReads = 100

// fill reads until block is full. The error is io.EOF at the end of r.
func fill(ctx context.Context, r io.Reader, block []byte) (int, error) {
	n := 0
	for empty := 0; n < len(block); {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		read, err := r.Read(block[n:])
		n += read
		switch {
		case err == io.EOF:
			return n, io.EOF
		case err != nil:
			return n, fmt.Errorf("read the bundle: %w", err)
		case read > 0:
			empty = 0
		case empty == maxEmptyReads:
			return n, fmt.Errorf("read the bundle: %w", io.ErrNoProgress)
		default:
			empty++
		}
	}
	return n, nil
}
