package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrFormat means that the updater of a client refuses a bundle: it fails with
	// InvalidUpdaterFormat after the download, at every start of the application.
	ErrFormat = errors.New("the updater can't install it")
	// ErrBeside means that a bundle installs the application a second time, as
	// another type: an MSI beside an installation by nsis, or the other way round.
	ErrBeside = errors.New("it would be installed beside the application")
	// ErrUnfit means that an answer has bundles for a client's platform, and none for
	// the type that the client was installed from.
	ErrUnfit = errors.New("no bundle of the client's type")
)

// Type returns the bundle type that a client was installed from, empty if it is not known
// or none of its system's.
func (c Client) Type() string {
	os, _, _ := strings.Cut(c.Target, "-")
	if slices.Contains(bundleTypes[os], c.BundleType) {
		return c.BundleType
	}
	return ""
}

// Key returns the platform key of what a client was installed from, OS-ARCH-TYPE, or
// OS-ARCH if the type is not known.
func (c Client) Key() string {
	if kind := c.Type(); kind != "" {
		return c.Target + "-" + kind
	}
	return c.Target
}

// keys are the keys that a client tries, in order.
func (c Client) keys() []string {
	switch {
	case c.Named != "":
		return []string{c.Named}
	case c.Type() != "":
		return []string{c.Key(), c.Target}
	}
	return []string{c.Target}
}

// Suits returns why a client can't use the bundle that Lookup found under a key, judging by
// the name of its file. On Linux the bundle must have the type of the installation, or be an
// AppImage if the client does not know its type. On Windows the plain key must not have a
// bundle of the other installer; a key with a type may have either. Errors wrap ErrFormat or
// ErrBeside.
func (c Client) Suits(key string, p Platform) error {
	k, err := ParseKey(c.Target)
	if err != nil {
		return nil //nolint:nilerr // nothing is known of such a platform
	}
	if k.Type = c.Type(); k.OS == "linux" && k.Type == "" {
		k.Type = "appimage" // which the updater takes it for
	}
	name := bundleName(p)
	platforms, kind, known := fileKind(name)
	plain := key == c.Target
	if key == "" { // the dynamic form
		plain = k.OS == "windows"
	}
	switch {
	case known && !slices.Contains(strings.Fields(platforms), k.OS+"-"+k.Type),
		!known && plain && k.OS == "linux" && k.Type != "appimage": // the plain key is the AppImage's
		return fmt.Errorf("%w: expected %s, not %s", ErrFormat, k.Installable(), name)
	case k.OS == "windows" && plain && kind != "" && k.Type != "" && kind != k.Type:
		return fmt.Errorf("%w: %s is of type %s, the installation of type %s", ErrBeside, name, kind, k.Type)
	}
	return nil
}

// Choose decides for a server what a client is offered: nil if it is up to date. It
// never offers what Suits refuses. The installed version is that of the client. Errors wrap
// ErrTarget, also for a client that is up to date, or ErrUnfit.
func (r *Response) Choose(c Client, installed Version) (*Offer, error) {
	updates := r.updates(installed, c.Downgrades)
	key, p, err := r.Lookup(c)
	switch {
	case err != nil && !r.serves(c.Target):
		return nil, err
	case !updates:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: the manifest has no %s", ErrUnfit, strings.Join(c.keys(), " and no "))
	}
	if err := c.Suits(key, p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return r.offer(c, key, p), nil
}

// serves reports whether an answer has a bundle of any type for a target.
func (r *Response) serves(target string) bool {
	for key := range r.Platforms {
		if key == target || strings.HasPrefix(key, target+"-") {
			return true
		}
	}
	return false
}
