package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

// Library is the releases of a store.
type Library struct {
	Store object.Store
	Keys  signing.Keyring
	// Transferred, if not nil, is called as Publisher's.
	Transferred func(bundle string, n int, total int64)
	// Trust is what is known of the operators of channels.
	Trust map[string]channels.Trust
}

// Causes of refusals.
var (
	ErrOtherBytes = errors.New("the version is published with other bytes")
	ErrNoRelease  = errors.New("no such release")
	ErrStored     = errors.New("the store does not hold what was published")
	ErrConfig     = errors.New("not configured")
)

// sideBySide is how many bundles are transferred at once.
const sideBySide = 4

// Record reads the record of a version: the one that a log names, else the newest. A
// *Refusal with ErrNoRelease if the version was not published, or was discarded.
func (l Library) Record(ctx context.Context, version string) (*Record, error) {
	v, err := bundle.ParseVersion(version)
	if err != nil {
		return nil, err
	}
	h, err := l.recordSet(ctx, v.String())
	switch {
	case err != nil:
		return nil, err
	case h.Counts == nil:
		return nil, NotInStore(version)
	}
	return h.Counts, nil
}

// Read returns a small object whole.
func (l Library) Read(ctx context.Context, key string, limit int64) ([]byte, error) {
	data, _, err := object.ReadAll(ctx, l.Store, key, limit)
	return data, err
}

// Verified returns the record of a version with the SHA-256 that a log names, whose
// bundles in the store match it.
func (l Library) Verified(ctx context.Context, version, sum string, allowUnbound bool) (*Record, error) {
	record, err := l.Named(ctx, version, sum)
	if err != nil {
		return nil, err
	}
	return record, l.VerifyStored(ctx, record, allowUnbound)
}

// VerifyStored compares the bundles in the store with the record and their
// signatures with the trusted keys, without fetching them where the store keeps
// a checksum.
func (l Library) VerifyStored(ctx context.Context, r *Record, allowUnbound bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * sideBySide)
	for _, b := range r.Bundles {
		group.Go(func() error { return l.verifyOne(ctx, r.Version, b, allowUnbound) })
	}
	return group.Wait()
}

func (l Library) verifyOne(ctx context.Context, version string, b Stored, allowUnbound bool) error {
	const mend = "`tsmon channel repair CHANNEL --bundle FILE` restores it from a copy; without one, publish a higher version"
	key := BundleKey(version, b.Name)
	same, err := l.Holds(ctx, key, b.Size, b.CRC64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bundle.Refuse(ErrStored, mend, "%s is gone", key)
	case err != nil:
		return err
	case !same:
		return bundle.Refuse(ErrStored, mend, "%s has other bytes than were published", key)
	}
	if !b.Updates() {
		return nil
	}
	sig, err := b.accept(l.Keys, version, allowUnbound)
	if errors.Is(err, signing.ErrLegacy) {
		err = l.VerifyBytes(ctx, key, sig)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// Holds compares an object with a size and a checksum.
func (l Library) Holds(ctx context.Context, key string, size int64, crc64 string) (bool, error) {
	var info object.Info
	var crc uint64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { info, err = l.Store.Stat(ctx, key); return err })
	group.Go(func() (err error) { crc, err = l.Store.Checksum(ctx, key); return err })
	err := group.Wait()
	return err == nil && info.Size == size && checksumText(crc) == crc64, err
}

// VerifyBytes fetches a stored bundle and verifies its signature.
func (l Library) VerifyBytes(ctx context.Context, key string, sig signing.Signature) error {
	verifier, err := l.Keys.Verifier(sig)
	if err != nil {
		return err
	}
	body, info, err := l.Store.Get(ctx, key)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.CopyBuffer(verifier, bundle.Counted(body, key, info.Size, l.Transferred), make([]byte, 256<<10)); err != nil {
		return err
	}
	return verifier.Verify()
}

// Objects returns the sizes of the objects in a release's folder, by name, and the names of those that
// were written before a time.
func (l Library) Objects(ctx context.Context, version string, before time.Time) (found map[string]int64, old []string, err error) {
	found = map[string]int64{}
	for info, err := range l.Store.List(ctx, Folder(version), "") {
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimPrefix(info.Key, Folder(version))
		found[name] = info.Size
		if info.ModTime.Before(before) && !IsRecord(info.Key) {
			old = append(old, name)
		}
	}
	return found, old, nil
}

// Settle adapts a bundle to the objects that an incomplete publish left in the release's folder. A
// signature there is kept if it is by the same key and as good as the bundle's own. If the bundle was
// built or signed again since, other objects have its name. Then its name gets the beginning of its
// digest.
func (l Library) Settle(ctx context.Context, version string, b *Stored, found map[string]int64, allowUnbound bool) error {
	name := b.Name
	for length := 8; ; length += 8 {
		free, err := l.fits(ctx, version, b, found, allowUnbound)
		switch {
		case err != nil || free:
			return err
		case length > len(b.BLAKE2b):
			return bundle.Refuse(ErrOtherBytes, "publish a higher version", "%s is taken", BundleKey(version, b.Name))
		}
		b.Name = bundle.Distinct(name, b.BLAKE2b[:length])
	}
}

// fits reports whether a bundle can have its name. It adopts the signature that
// lies under the name.
func (l Library) fits(ctx context.Context, version string, b *Stored, found map[string]int64, allowUnbound bool) (bool, error) {
	key := BundleKey(version, b.Name)
	if size, ok := found[b.Name]; ok {
		if size != b.Size {
			return false, nil
		}
		if same, err := l.Holds(ctx, key, b.Size, b.CRC64); err != nil || !same {
			return false, err
		}
	}
	if _, ok := found[b.Name+".sig"]; !ok || !b.Updates() {
		return true, nil
	}
	line, err := l.Read(ctx, key+".sig", signing.MaxSignature)
	if err != nil || string(line) == b.Signature {
		return true, err
	}
	if !b.signedAlike(l.Keys, version, string(line), allowUnbound) {
		return false, nil // it belongs to other bytes, or another key made it
	}
	b.Signature = string(line)
	return true, nil
}

// ErrRaced means that somebody else uploads the same release at the same time.
var ErrRaced = fmt.Errorf("somebody else publishes this version: %w", object.ErrChanged)

// CheckConditions has the store prove on a record that it honours conditions.
func CheckConditions(ctx context.Context, store object.Store, version string) error {
	data, _, err := object.ReadAll(ctx, store, RecordKey(version, 1), MaxRecord)
	if err != nil {
		return err
	}
	return object.CheckConditions(ctx, store, RecordKey(version, 1), data, RecordAttributes)
}

// MarkDiscarded creates the record that says that those before it are discarded. ErrRaced if
// somebody else has created another.
func (l Library) MarkDiscarded(ctx context.Context, version string, number int, who string, now time.Time) error {
	r := &Record{Version: version, Who: who, PubDate: now.UTC().Truncate(time.Second), Discarded: true, Bundles: []Stored{}}
	data, err := r.Encode()
	if err != nil {
		return err
	}
	return l.Create(ctx, RecordKey(version, number), data, RecordAttributes)
}

// CheckKeys refuses to go on without trusted keys.
func CheckKeys(keys signing.Keyring) error {
	if len(keys) > 0 {
		return nil
	}
	return bundle.Refuse(ErrConfig, "set trusted_keys in tsmon.yaml or TSMON_TRUSTED_KEYS to the pubkey of tauri.conf.json", "trusted_keys is empty")
}
