package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/library"
)

// Import adds the channels and releases of a file to the publisher's store. It verifies the
// file as the package comment describes; with dry it does nothing else. A second call
// completes an interrupted one, or does nothing.
func Import(ctx context.Context, p *release.Publisher, file io.Reader, dry bool) (*Report, error) {
	in, err := take(ctx, p, file, dry)
	if err == nil {
		err = in.commit(ctx)
	}
	if err != nil {
		return nil, err
	}
	return in.report, nil
}

// take reads and verifies a file, and stores its bundles unless dry is set. The channels stay
// as they are until commit.
func take(ctx context.Context, p *release.Publisher, file io.Reader, dry bool) (*intake, error) {
	in, err := newIntake(ctx, p, p.Library(), dry)
	if err != nil {
		return nil, err
	}
	a, err := openArchive(file)
	if err != nil {
		return nil, unread(err)
	}
	defer a.close()
	im := &importing{intake: in, file: a}
	err = inOrder(ctx, im.logs, im.settle, im.allRecords, im.fetch, im.stock, im.objects, im.whole)
	if errors.Is(err, ErrDamaged) {
		err = im.unread(err)
	}
	return in, err
}

// importing is one run of Import.
type importing struct {
	*intake
	file    *opened
	spoiled []string // keys of bundles whose bytes are not those that were published
}

func unread(err error) error {
	return &release.Refusal{Cause: err, Mend: "copy it again, or export it again, and compare the checksums of both copies"}
}

// unread adds to an error the objects that a damaged file lacks. They are known once all records
// have been read.
func (im *importing) unread(err error) error {
	if keys := im.missing(); len(im.lacking) > 0 {
		err = fmt.Errorf("%w; not read: %d objects, the first is %s", err, len(keys), keys[0])
	}
	return unread(err)
}

// objects reads the bundles and their signatures, up to the end of the file.
func (im *importing) objects(ctx context.Context) error {
	for im.file.name != "" {
		if err := im.object(ctx); err != nil {
			return err
		}
		if err := im.file.next(); err != nil {
			return err
		}
	}
	if len(im.spoiled) > 0 {
		return fmt.Errorf("%w: %s has other bytes than were published", ErrDamaged, im.spoiled[0])
	}
	return nil
}

// isRecord reports whether a member is the record of a release.
func isRecord(name string) bool {
	version, ok := library.VersionIn(name)
	return ok && name == library.RecordKey(version, 1)
}

// here reports whether a version occurs in the store's entries but in none of the new ones.
func (im *importing) here(version string) bool {
	return im.releases[version] == nil && slices.ContainsFunc(im.deliveries, func(d *delivery) bool { return d.before.Record(version) != "" })
}

// part holds the entries of a channel in a file.
type part struct {
	Range
	before *channels.Log
	raw    [][]byte // empty for lost entries
}

// next returns the number of the entry after those that were read.
func (p *part) next() uint64 { return p.Since.Sequence + uint64(len(p.raw)) + 1 }

// logs reads the header and all entries, and then goes to the member after them.
func (im *importing) logs(ctx context.Context) error {
	h, err := im.file.header()
	if err != nil {
		return err
	}
	parts := map[string]*part{}
	for _, r := range h.Channels {
		if channels.CheckName(r.Channel) != nil || parts[r.Channel] != nil || r.Until.Sequence < r.Since.Sequence || r.Until.Sequence-r.Since.Sequence > channels.MaxEntries {
			return fmt.Errorf("%w: %s lists %.40q twice, or with an invalid name or invalid entry numbers", ErrDamaged, headerName, r.Channel)
		}
		before, err := im.log(ctx, r.Channel)
		if err != nil {
			return err
		}
		parts[r.Channel] = &part{Range: r, before: before}
	}
	total := int64(0)
	for err = im.file.next(); err == nil && strings.HasPrefix(im.file.name, "log/"); err = im.file.next() {
		channel, sequence, ok := channels.SequenceIn(im.file.name)
		p := parts[channel]
		if total += im.file.size; !ok || p == nil || sequence < p.next() || sequence-p.Since.Sequence > channels.MaxEntries || total > channels.MaxHistory {
			return fmt.Errorf("%w: the entry %.100q is out of place or too large", ErrDamaged, im.file.name)
		}
		data, err := im.file.data(channels.MaxEntry)
		if err != nil {
			return err
		}
		lost := make([][]byte, sequence-p.next())
		p.raw = append(append(p.raw, lost...), data)
	}
	if err != nil {
		return err
	}
	for _, r := range h.Channels {
		p := parts[r.Channel]
		if last := p.next() - 1; last != r.Until.Sequence {
			return fmt.Errorf("%w: the entries of %s end at %d, not at %d", ErrDamaged, r.Channel, last, r.Until.Sequence)
		}
		if err := im.follow(ctx, p.before, r.Since, p.raw); err != nil {
			return err
		}
	}
	return nil
}

// allRecords reads the records of releases, and then goes to the member after them.
func (im *importing) allRecords(context.Context) error {
	total := int64(0)
	for isRecord(im.file.name) {
		if total += im.file.size; total > maxRecords {
			return fmt.Errorf("%w: its records have more than %d bytes", ErrDamaged, maxRecords)
		}
		data, err := im.file.data(library.MaxRecord)
		if err != nil {
			return err
		}
		if version, _ := library.VersionIn(im.file.name); !im.here(version) {
			if err := im.record(version, data); err != nil {
				return err
			}
		}
		if err := im.file.next(); err != nil {
			return err
		}
	}
	return nil
}

// object reads a bundle, or its signature, which the record also holds.
func (im *importing) object(ctx context.Context) error {
	name := im.file.name
	version, _ := library.VersionIn(name)
	if im.here(version) {
		return nil
	}
	r := im.releases[version]
	if r == nil || r.record == nil {
		return fmt.Errorf("%w: no entry or record in it names %.100q", ErrDamaged, name)
	}
	for _, b := range r.record.Bundles {
		switch key := library.BundleKey(version, b.Name); name {
		case key + ".sig":
			data, err := im.file.data(int64(len(b.Signature)))
			if err == nil && string(data) != b.Signature {
				err = fmt.Errorf("%w: %s is not the signature of the record", ErrDamaged, name)
			}
			return err
		case key:
			if im.file.size != b.Size {
				return fmt.Errorf("%w: %s has %d bytes, not %d", ErrDamaged, name, im.file.size, b.Size)
			}
			lacking, ok := im.lacking[key]
			if !ok {
				return nil
			}
			err := im.receive(ctx, lacking, im.file)
			if errors.Is(err, library.ErrBytes) {
				im.spoiled = append(im.spoiled, key)
				return nil // read the other bundles; objects reports the error
			}
			return err
		}
	}
	return fmt.Errorf("%w: no entry or record in it names %.100q", ErrDamaged, name)
}
