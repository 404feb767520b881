package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/signing"
)

// Finding is a problem of a channel.
type Finding struct {
	Object  string `json:"object"` // key in the store
	Problem string `json:"problem"`
	Mend    string `json:"mend,omitempty"`
	Err     error  `json:"-"`
}

// VerifyReport is what was verified of a channel, and its problems.
type VerifyReport struct {
	Channel  string   `json:"channel"`
	Version  string   `json:"version"`         // shown by the head of the log
	Entries  int      `json:"entries"`         // of the log
	Rings    bool     `json:"rings,omitempty"` // manifests of rings were verified
	Releases []string `json:"releases"`        // that were verified
	// Pruned are releases whose bundles are gone, as the log says.
	Pruned   []string  `json:"pruned,omitempty"`
	Findings []Finding `json:"findings"` // empty: the channel is sound
}

// Err joins the findings, nil if there are none.
func (r *VerifyReport) Err() error {
	var errs []error
	for _, f := range r.Findings {
		errs = append(errs, f.Err)
	}
	return errors.Join(errs...)
}

func (r *VerifyReport) find(object string, err error, mend string) {
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		mend = refusal.Mend
	}
	r.Findings = append(r.Findings, Finding{Object: object, Problem: err.Error(), Mend: mend, Err: err})
}

// Verify checks a channel in the store: the numbers and hashes of its log, its
// manifest and those of its rings byte for byte against the log, and every release in
// the log: its record, and its bundles by size, checksum and signature. It reads every byte of
// the bundles that the head offers.
//
// Without a public URL any address will do, if all bundles are there.
func (p *Publisher) Verify(ctx context.Context, channel string) (*VerifyReport, error) {
	l := p.Library()
	if err := trusts(l.Keys); err != nil {
		return nil, err
	}
	report := &VerifyReport{Channel: channel, Findings: []Finding{}}
	log, err := p.channels().Load(ctx, channel)
	if errors.Is(err, channels.ErrLog) {
		report.find("log/"+channel, err, mendWith(channel))
		return report, nil
	}
	if err != nil {
		return nil, err
	}
	head := log.Head()
	if head == nil {
		return nil, refuse(ErrNoRelease, "`tsmon channel list` shows the channels of the store", "%s shows nothing", channel)
	}
	report.Version, report.Entries = head.Version, len(log.Entries)
	if err := p.verifyShown(ctx, log, report); err != nil {
		return nil, err
	}
	var seen []string
	for _, e := range log.Entries {
		for _, version := range []string{e.Version, e.Newest()} {
			if slices.Contains(seen, version) {
				continue
			}
			seen = append(seen, version)
			if err := l.verifyRelease(ctx, log, version, version == head.Version || version == head.Newest(), report); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// Behind returns the keys of manifests, the channel's and those of rings, that don't
// show what a log wants, as after a publisher that was killed.
func (p *Publisher) Behind(ctx context.Context, log *channels.Log) (keys []string, err error) {
	r := p.channels()
	seen, err := r.Peek(ctx, log.Channel)
	if err != nil {
		return nil, err
	}
	for i, v := range log.Views(r.HasRings(log.Channel)) {
		if _, ok := v.Shows(seen[i].Data); !ok {
			keys = append(keys, v.Key)
		}
	}
	return keys, nil
}

// verifyShown compares what clients read, the manifest and those of the rings, with the
// log.
func (p *Publisher) verifyShown(ctx context.Context, log *channels.Log, report *VerifyReport) error {
	r := p.channels()
	seen, err := r.Peek(ctx, report.Channel)
	if err != nil {
		return err
	}
	known := map[string]bool{} // manifests that were checked, by their bytes
	for i, v := range log.Views(r.HasRings(report.Channel)) {
		if shown := seen[i].Sequence(); shown > log.End().Sequence {
			report.find(v.Key, fmt.Errorf("%w: %s shows entry %d, which is missing", channels.ErrLog, v.Key, shown), mendWith(report.Channel))
			continue
		}
		p.verifyView(v, seen[i].Data, report)
		if data := string(seen[i].Data); data != "" && !known[data] && !v.IsList() {
			known[data] = true
			if _, problems := manifest.Check(seen[i].Data, manifest.Rules{Keys: p.Keys, AllowUnbound: showsUnbound(p.Policies, report.Channel)}); len(problems) > 0 {
				mend := problems[0].Mend
				if errors.Is(problems, signing.ErrUnbound) {
					mend = "publish a higher version with signatures that name it, or set allow_unbound: true for " + report.Channel + " in tsmon.yaml, as on the servers that show it"
				}
				report.find(v.Key, problems, mend)
			}
		}
	}
	if report.Rings = r.HasRings(report.Channel); report.Rings {
		return nil
	}
	return p.verifyNoRings(ctx, report)
}

// verifyView compares a manifest or a list with what it should show.
func (p *Publisher) verifyView(v channels.View, data []byte, report *VerifyReport) {
	mend := "`tsmon channel repair " + report.Channel + "` brings it up to date"
	base, ok := v.Shows(data)
	switch {
	case ok && data == nil: // nothing to list
	case data == nil:
		report.find(v.Key, fmt.Errorf("%w: %s is missing", ErrStored, v.Key), mend)
	case !ok:
		report.find(v.Key, fmt.Errorf("%w: %s is not what entry %d says", ErrStored, v.Key, v.Sequence), mend)
	case p.PublicURL != "" && base != p.PublicURL && base != "":
		report.find(v.Key, fmt.Errorf("%w: the addresses in %s lead to %s, public_url is %s", ErrStored, v.Key, base, p.PublicURL), mend)
	}
}

// verifyNoRings finds rings that nobody keeps: their clients would get nothing new.
func (p *Publisher) verifyNoRings(ctx context.Context, report *VerifyReport) error {
	key := channels.RingKey(report.Channel, 0)
	_, err := p.Store.Stat(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		report.find(key, fmt.Errorf("%w: %s has rings that are not kept", ErrStored, report.Channel),
			"set rings: true for "+report.Channel+" in tsmon.yaml; installed applications may read them")
	}
	return err
}

// verifyRelease checks one release; whole reads every byte. An error means that it
// could not be checked.
func (l Library) verifyRelease(ctx context.Context, log *channels.Log, version string, whole bool, report *VerifyReport) error {
	record, err := l.Named(ctx, version, log.Record(version))
	if log.Pruned(version) && (err == nil || errors.Is(err, ErrStored) || errors.Is(err, ErrNoRelease)) {
		return l.verifyPruned(ctx, version, record, report)
	}
	if err == nil {
		report.Releases = append(report.Releases, version)
		err = l.verifyStored(ctx, record, true)
	}
	if err == nil {
		err = l.verifySignatures(ctx, record, whole)
	}
	if err == nil || !faulty(err) {
		return err
	}
	if errors.Is(err, ErrStored) || errors.Is(err, ErrNoRelease) {
		err = &Refusal{Cause: err, Mend: mendWith(log.Channel)}
	}
	report.find(folder(version), err, "publish a higher version; never change the objects of one that was published")
	return nil
}

// mendWith says how what is lost is put back.
func mendWith(channel string) string {
	return "`tsmon channel repair " + channel + " --bundle FILE` puts back the bytes of lost objects that you still have; without --bundle it has the log say what is lost, once clients are offered a higher version"
}

// verifyPruned finds bundles of a pruned release that were put back with other bytes.
func (l Library) verifyPruned(ctx context.Context, version string, record *Record, report *VerifyReport) error {
	report.Pruned = append(report.Pruned, version)
	if record == nil {
		return nil
	}
	for _, b := range record.Bundles {
		key := folder(record.Version) + b.Name
		same, err := l.holds(ctx, key, b.Size, b.CRC64)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !same:
			report.find(key, fmt.Errorf("%w: %s has other bytes than were published", ErrStored, key), mendWith(report.Channel))
		}
	}
	return nil
}

// verifySignatures compares the .sig objects with the record, and with whole the
// signatures with every byte of the bundles.
func (l Library) verifySignatures(ctx context.Context, record *Record, whole bool) error {
	for _, b := range record.Bundles {
		if !b.updates() {
			continue
		}
		key := folder(record.Version) + b.Name
		data, err := l.read(ctx, key+".sig", signing.MaxSignature)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if string(data) != b.Signature {
			return fmt.Errorf("%w: %s.sig is not the published signature", ErrStored, key)
		}
		sig, err := signing.ParseSignature(b.Signature)
		if err == nil && whole {
			err = l.verifyBytes(ctx, key, sig)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// faulty distinguishes problems of a release from failures to check it.
func faulty(err error) bool {
	return errors.As(err, new(*signing.FormatError)) || slices.ContainsFunc([]error{ErrNoRelease, ErrStored, signing.ErrSignature,
		signing.ErrUntrustedKey, signing.ErrBound, signing.ErrUnbound, signing.ErrLegacy}, func(cause error) bool { return errors.Is(err, cause) })
}
