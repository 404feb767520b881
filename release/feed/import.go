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

// Import adds the channels and releases of a file to the publisher's store. With dry it only
// verifies the file. The package comment lists what is verified. A second call completes what
// was interrupted, or does nothing.
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

// take reads a file and verifies it. With dry the store stays as it is.
func take(ctx context.Context, p *release.Publisher, file io.Reader, dry bool) (*intake, error) {
	in, err := newIntake(ctx, p, dry)
	if err != nil {
		return nil, err
	}
	a, err := openArchive(file)
	if err != nil {
		return nil, unread(err)
	}
	defer a.close()
	im := &importing{intake: in, file: a}
	if err := im.all(ctx); errors.Is(err, ErrDamaged) {
		return nil, im.unread(err)
	} else if err != nil {
		return nil, err
	}
	if err := in.whole(); err != nil {
		return nil, &release.Refusal{Cause: err, Mend: in.missingMend()}
	}
	return in, nil
}

// importing is one run of Import.
type importing struct {
	*intake
	file    *opened
	spoiled []string // keys of bundles with other bytes
}

const damagedMend = "copy it again, or export it again, and compare the checksums of both copies"

func unread(err error) error { return &release.Refusal{Cause: err, Mend: damagedMend} }

// unread adds to an error what a damaged file lacks, if that is known.
func (im *importing) unread(err error) error {
	if keys := im.missing(); len(im.records) > 0 && len(keys) > 0 {
		err = fmt.Errorf("%w; not read: %d objects, the first is %s", err, len(keys), keys[0])
	}
	return unread(err)
}

// all reads the members in their order.
func (im *importing) all(ctx context.Context) error {
	h, err := im.file.header()
	if err != nil {
		return err
	}
	name, size, err := im.logs(ctx, h)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if settled := im.settle(); settled != nil {
		return settled
	}
	total := int64(0)
	for ; err == nil && isRecord(name); name, size, err = im.file.next() {
		if total += size; total > maxRecords {
			return fmt.Errorf("%w: its records have more than %d bytes", ErrDamaged, maxRecords)
		}
		data, err := im.file.data(name, size, library.MaxRecord)
		if err != nil {
			return err
		}
		version, _ := library.VersionIn(name)
		if im.here(version) {
			continue
		}
		if err := im.record(version, data); err != nil {
			return err
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if recorded := im.fetch(ctx, im.Library()); recorded != nil { // those that the file does not have
		return recorded
	}
	if stocked := im.stock(ctx); stocked != nil {
		return stocked
	}
	for ; err == nil; name, size, err = im.file.next() {
		if err := im.object(ctx, name, size); err != nil {
			return err
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
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

// here reports whether only entries that are here already are about a version.
func (im *importing) here(version string) bool {
	return im.sums[version] == "" && slices.ContainsFunc(im.deliveries, func(d *delivery) bool { return d.before.Record(version) != "" })
}

// logs reads the entries. It returns the member behind them.
func (im *importing) logs(ctx context.Context, h Header) (name string, size int64, err error) {
	raw := map[string][][]byte{}
	since := map[string]channels.Position{}
	before := map[string]*channels.Log{}
	for _, r := range h.Channels {
		if channels.CheckName(r.Channel) != nil || before[r.Channel] != nil || r.Until.Sequence < r.Since.Sequence || r.Until.Sequence-r.Since.Sequence > channels.MaxEntries {
			return "", 0, fmt.Errorf("%w: %s says what can't be of %.40q", ErrDamaged, headerName, r.Channel)
		}
		if before[r.Channel], err = im.log(ctx, r.Channel); err != nil {
			return "", 0, err
		}
		since[r.Channel] = r.Since
		raw[r.Channel] = nil
	}
	total := int64(0)
	for name, size, err = im.file.next(); err == nil && strings.HasPrefix(name, "log/"); name, size, err = im.file.next() {
		channel, sequence, ok := channels.SequenceIn(name)
		next := since[channel].Sequence + uint64(len(raw[channel])) + 1
		if total += size; !ok || before[channel] == nil || sequence < next || sequence-since[channel].Sequence > channels.MaxEntries || total > channels.MaxHistory {
			return "", 0, fmt.Errorf("%w: %.100q does not belong there", ErrDamaged, name)
		}
		data, err := im.file.data(name, size, channels.MaxEntry)
		if err != nil {
			return "", 0, err
		}
		for ; next < sequence; next++ {
			raw[channel] = append(raw[channel], nil) // it is lost
		}
		raw[channel] = append(raw[channel], data)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, err
	}
	for _, r := range h.Channels {
		if have := r.Since.Sequence + uint64(len(raw[r.Channel])); have != r.Until.Sequence {
			return "", 0, fmt.Errorf("%w: entries of %s end at %d, not at %d", ErrDamaged, r.Channel, have, r.Until.Sequence)
		}
		if err := im.follow(ctx, before[r.Channel], r.Since, raw[r.Channel]); err != nil {
			return "", 0, err
		}
	}
	return name, size, err
}

// object takes a bundle or its signature, which the record has, too.
func (im *importing) object(ctx context.Context, name string, size int64) error {
	version, _ := library.VersionIn(name)
	if im.here(version) {
		return nil
	}
	record := im.records[version]
	if record == nil {
		return fmt.Errorf("%w: %.100q does not belong to it", ErrDamaged, name)
	}
	for _, b := range record.Bundles {
		switch key := library.BundleKey(version, b.Name); name {
		case key + ".sig":
			data, err := im.file.data(name, size, int64(len(b.Signature)))
			if err == nil && string(data) != b.Signature {
				err = fmt.Errorf("%w: %s is not the signature of the record", ErrDamaged, name)
			}
			return err
		case key:
			if size != b.Size {
				return fmt.Errorf("%w: %s has %d bytes, not %d", ErrDamaged, name, size, b.Size)
			}
			lacking, ok := im.lacking[key]
			if !ok {
				return nil
			}
			err := im.receive(ctx, lacking, im.file)
			if errors.Is(err, library.ErrBytes) {
				im.spoiled = append(im.spoiled, key)
				return nil // the others can still be had
			}
			return err
		}
	}
	return fmt.Errorf("%w: %.100q does not belong to it", ErrDamaged, name)
}
