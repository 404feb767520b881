package feed

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// archive writes an export file.
type archive struct {
	tar  *tar.Writer
	zstd *zstd.Encoder
}

func newArchive(w io.Writer) (*archive, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, err
	}
	return &archive{tar.NewWriter(z), z}, nil
}

// add writes a member of size bytes.
func (a *archive) add(name string, size int64, r io.Reader) error {
	// All members have the same time, so that the same history gives the same bytes.
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
	if err == nil {
		_, err = io.Copy(a.tar, r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (a *archive) addBytes(name string, data []byte) error {
	return a.add(name, int64(len(data)), bytes.NewReader(data))
}

func (a *archive) close() error { return errors.Join(a.tar.Close(), a.zstd.Close()) }

const (
	// maxWindow bounds the memory of the decoder, in bytes.
	maxWindow = 64 << 20
	// maxTail bounds the padding after the last member.
	maxTail = 1 << 20
)

// opened reads an export file, member by member. Its errors wrap ErrDamaged.
type opened struct {
	tar  *tar.Reader
	zstd *zstd.Decoder
	name string // name of the current member; empty after the last one
	size int64  // bytes of the current member
}

func openArchive(r io.Reader) (*opened, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, damaged(err)
	}
	return &opened{tar: tar.NewReader(z), zstd: z}, nil
}

func damaged(err error) error {
	if errors.Is(err, ErrDamaged) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// next goes to the next member.
func (o *opened) next() error {
	h, err := o.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		o.name, o.size = "", 0
		return o.end()
	case err != nil:
		return damaged(err)
	case h.Typeflag != tar.TypeReg || h.Size < 0 || h.Name == "" || len(h.Name) > 1000:
		return fmt.Errorf("%w: %.100q is not a regular file", ErrDamaged, h.Name)
	}
	o.name, o.size = h.Name, h.Size
	return nil
}

// end reads the padding after the last member, which also verifies the checksum.
func (o *opened) end() error {
	tail := make([]byte, 4096)
	for left := maxTail; left > 0; {
		n, err := o.zstd.Read(tail)
		left -= n
		switch {
		case bytes.ContainsFunc(tail[:n], func(c rune) bool { return c != 0 }):
			return fmt.Errorf("%w: there is data after its last member", ErrDamaged)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return damaged(err)
		}
	}
	return fmt.Errorf("%w: its padding has more than %d bytes", ErrDamaged, maxTail)
}

// Read reads the current member.
func (o *opened) Read(p []byte) (int, error) {
	n, err := o.tar.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(err)
	}
	return n, err
}

// data returns the bytes of the current member. A member of more than limit bytes is an error.
func (o *opened) data(limit int64) ([]byte, error) {
	if o.size > limit {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrDamaged, o.name, o.size, limit)
	}
	data := make([]byte, o.size)
	if _, err := io.ReadFull(o, data); err != nil {
		return nil, damaged(err)
	}
	return data, nil
}

// header reads the first member.
func (o *opened) header() (h Header, err error) {
	err = o.next()
	if errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, tar.ErrHeader) || err == nil && o.name == "" {
		return h, fmt.Errorf("%w, or not one of `tsmon release export`", ErrDamaged)
	}
	if err != nil {
		return h, err
	}
	if o.name != headerName {
		return h, fmt.Errorf("%w: the first member is %.100q, not "+headerName, ErrDamaged, o.name)
	}
	data, err := o.data(maxHeader)
	if err != nil {
		return h, err
	}
	err = json.Unmarshal(data, &h)
	switch {
	case err != nil:
		return h, damaged(err)
	case h.Format != headerFormat || len(h.Channels) == 0 || len(h.Channels) > maxChannels:
		return h, fmt.Errorf("%w: %s is not the header of an export", ErrDamaged, headerName)
	case h.Version != headerVersion:
		return h, fmt.Errorf("%w: its format version is %d, this program reads %d", ErrDamaged, h.Version, headerVersion)
	}
	return h, nil
}

func (o *opened) close() { o.zstd.Close() }
