package library

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/minio/crc64nvme"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

// What copies releases from one store to another. Bytes are compared with the record, and the
// record with the log.

// BundleKey returns the key of a bundle of a version.
func BundleKey(version, name string) string { return Folder(version) + name }

// RecordData returns the bytes of the record of a version with a SHA-256 that a log names.
func (l Library) RecordData(ctx context.Context, version, sum string) ([]byte, error) {
	r, err := l.Named(ctx, version, sum)
	if err != nil {
		return nil, err
	}
	data, err := l.Read(ctx, RecordKey(version, r.Number), MaxRecord)
	if err == nil && SumOf(data) != r.Sum {
		err = notNamed(version)
	}
	return data, err
}

// DecodeRecord reads the bytes of a record that comes from elsewhere. The names of its
// bundles are fit to be keys of theirs. Errors wrap ErrStored.
func DecodeRecord(version string, data []byte) (*Record, error) {
	var r Record
	fault := func(format string, args ...any) (*Record, error) {
		return nil, fmt.Errorf("%w: the record of %s: %s", ErrStored, version, fmt.Sprintf(format, args...))
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return fault("%v", err)
	}
	if r.Version != version || r.Discarded || len(r.Bundles) == 0 {
		return fault("it is not one")
	}
	names := map[string]bool{}
	for _, b := range r.Bundles {
		key := BundleKey(version, b.Name)
		switch {
		case object.ValidKey(key) != nil || strings.Contains(b.Name, "/") || IsRecord(key) || strings.HasSuffix(b.Name, ".sig"):
			return fault("%.70q can't be the name of a bundle", b.Name)
		case names[b.Name]:
			return fault("there are two bundles %q", b.Name)
		case b.Size < 0 || b.Digest() == signing.Digest{}:
			return fault("%q has no size or digest", b.Name)
		case len(b.Signature) > signing.MaxSignature:
			return fault("the signature of %q is too long", b.Name)
		}
		names[b.Name] = true
	}
	r.Sum, r.Number = SumOf(data), 1
	return &r, nil
}

// Backs returns an error unless a release in a log is what its record says. It wraps
// ErrStored.
func (r *Record) Backs(shown *channels.Release) error {
	own := r.Release()
	if own.Record != shown.Record || own.Version != shown.Version || own.Notes != shown.Notes || !own.PubDate.Equal(shown.PubDate) ||
		!maps.Equal(own.Platforms, shown.Platforms) || !slices.EqualFunc(own.Files, shown.Files, channels.File.Equal) {
		return fmt.Errorf("%w: the log shows another %s than its record", ErrStored, shown.Version)
	}
	return nil
}

// PutRecord adds a record to those of its version, unless it is one of them.
func (l Library) PutRecord(ctx context.Context, version string, data []byte) error {
	next := 1
	for r, err := range l.each(ctx, version) {
		if err != nil || r.Sum == SumOf(data) {
			return err
		}
		next++
	}
	err := l.Create(ctx, RecordKey(version, next), data, RecordAttributes)
	if errors.Is(err, ErrRaced) { // somebody else was first
		return l.PutRecord(ctx, version, data)
	}
	return err
}

// Whole reports whether the store has a bundle of a version, with its signature. A
// *Refusal with ErrOtherBytes if it has other bytes in its place.
func (l Library) Whole(ctx context.Context, version string, b Stored) (bool, error) {
	key := BundleKey(version, b.Name)
	same, err := l.Holds(ctx, key, b.Size, b.CRC64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !same:
		return false, otherBytes(key)
	case b.Signature == "":
		return true, nil
	}
	line, err := l.Read(ctx, key+".sig", signing.MaxSignature)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && string(line) != b.Signature {
		err = otherBytes(key + ".sig")
	}
	return err == nil, err
}

func otherBytes(key string) error {
	return bundle.Refuse(ErrOtherBytes, "`tsmon channel repair CHANNEL --bundle FILE` restores it from a copy if a channel shows it; otherwise remove the object", "%s has other bytes here", key)
}

// Accept returns an error unless the signature of a bundle is valid, as far as that can be
// checked without its bytes.
func (l Library) Accept(version string, b Stored, allowUnbound bool) error {
	if !b.Updates() {
		return nil
	}
	if _, err := b.accept(l.Keys, version, allowUnbound); err != nil && !errors.Is(err, signing.ErrLegacy) {
		return fmt.Errorf("%s: %w", BundleKey(version, b.Name), err)
	}
	return nil
}

// Receive creates a bundle of a version from r, and its signature. It returns ErrBytes if the bytes of
// r are not those in the record, and the error of r if reading fails. In both cases no object is
// created. If the store has the bundle already, r may be left unread.
func (l Library) Receive(ctx context.Context, version string, b Stored, r io.Reader, allowUnbound bool) error {
	key := BundleKey(version, b.Name)
	_, err := l.Store.Create(ctx, key, b.Checked(r), b.Size, BundleAttributes)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = l.verifyOne(ctx, version, b, allowUnbound)
	}
	if err == nil && b.Signature != "" {
		err = l.Create(ctx, key+".sig", []byte(b.Signature), SignatureAttributes)
	}
	return err
}

// ErrBytes means that bytes are not those of a record.
var ErrBytes = errors.New("they are not the bytes that were published")

// Checked returns a reader of the bytes of a bundle. It returns the last of them only if
// all are those of the record; else it fails with ErrBytes, or the error of r.
func (s *Stored) Checked(r io.Reader) io.Reader {
	digest, crc := signing.NewHash(), crc64nvme.New()
	read := io.TeeReader(object.Exactly(r, s.Size), io.MultiWriter(digest, crc))
	return bundle.Withhold(read, s.Size, func() error {
		if hex.EncodeToString(digest.Sum(nil)) != s.BLAKE2b || checksumText(crc.Sum64()) != s.CRC64 {
			return fmt.Errorf("%s: %w", s.Name, ErrBytes)
		}
		return nil
	})
}
