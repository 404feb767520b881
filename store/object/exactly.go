package object

import (
	"fmt"
	"io"
)

// Exactly returns a reader that fails unless r has exactly size bytes: with
// io.ErrUnexpectedEOF if r ends early, and with another error if r continues. It returns
// errors of r, even those with or after the last byte.
func Exactly(r io.Reader, size int64) io.Reader {
	return &exactly{r: r, size: size, left: size}
}

type exactly struct {
	r          io.Reader
	size, left int64
	err        error
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.err != nil || len(p) == 0 {
		return 0, e.err
	}
	if e.left == 0 {
		e.err = e.end()
		return 0, e.err
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.r.Read(p)
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	e.err = err
	return n, err
}

func (e *exactly) end() error {
	var one [1]byte
	for range 100 {
		n, err := e.r.Read(one[:])
		switch {
		case n > 0:
			return fmt.Errorf("the data is longer than the announced %d bytes", e.size)
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}
