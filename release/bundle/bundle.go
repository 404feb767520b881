// Package bundle prepares update bundles on disk for a release: it finds them,
// names them, hashes them, and verifies or makes their signatures.
//
// A bundle is read twice on its way to a store: Read hashes it and settles its
// signature, so that a release can be judged before a byte is sent; Open reads it
// again for the upload and withholds the last bytes unless everything it read has
// the digest that was signed.
package bundle

import (
	"errors"
	"fmt"

	"tsmon/manifest"
	"tsmon/signing"
)

var (
	// ErrBundles says that files can't be published as they are.
	ErrBundles = errors.New("the bundles can't be published")
	// ErrNoFile says that there is no file of a name that was given.
	ErrNoFile = errors.New("no such file or folder")
	// ErrChanged says that a file changed between two reads of it.
	ErrChanged = errors.New("the file changed while it was read")
)

// Refusal is an error that knows its remedy; nothing was written.
type Refusal struct {
	Cause error  // a sentinel of the package that refuses, of signing, or of manifest
	Text  string // the details
	Mend  string // what to do about it
}

func (r *Refusal) Error() string {
	if r.Text == "" {
		return r.Cause.Error()
	}
	return r.Cause.Error() + ": " + r.Text
}

func (r *Refusal) Unwrap() error { return r.Cause }

// Refuse returns a *Refusal with a formatted text.
func Refuse(cause error, mend, format string, args ...any) error {
	return &Refusal{Cause: cause, Text: fmt.Sprintf(format, args...), Mend: mend}
}

// Bundle is an update bundle on disk, or a file that new users download beside them.
type Bundle struct {
	Path      string
	Name      string             // of the object, unique within the release
	Target    string             // OS-ARCH or darwin-universal; signatures are bound to it
	Type      string             // bundle type, empty if unknown
	Keys      []string           // platform keys in the manifest; none if it is no update
	Downloads []string           // keys by which new users find it, see CheckDownload
	Size      int64              // bytes
	Signature *signing.Signature // read from PATH.sig; nil if there is none

	Given []string // keys that --bundle or --also named, if any
	// Also marks a file that new users download and that updates nobody. It needs no
	// signature.
	Also bool

	kind Kind
}

// ParseVersion parses a version that may be published. Errors are a *Refusal.
func ParseVersion(text string) (manifest.Version, error) {
	v, err := manifest.ParseVersion(text)
	if err != nil {
		err = &Refusal{Cause: err, Mend: "write MAJOR.MINOR.PATCH, such as 1.4.0"}
	}
	return v, err
}

// IsVersion reports whether a text is a version that may be published.
func IsVersion(text string) bool {
	_, err := manifest.ParseVersion(text)
	return err == nil
}
