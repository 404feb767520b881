package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
)

// Finding is a problem of a channel.
type Finding struct {
	Object  string `json:"object"` // key in the store
	Problem string `json:"problem"`
	Mend    string `json:"mend,omitempty"`
	Err     error  `json:"-"`
}

// VerifyReport says what was verified of a channel, and lists its problems.
type VerifyReport struct {
	Channel string `json:"channel"`
	Version string `json:"version"` // shown by the head of the log
	Entries int    `json:"entries"` // number of entries in the log
	// Fed says that the log is imported from another store, where the channel is moved.
	Fed bool `json:"fed,omitempty"`
	// End is the end of the log, for a later verification with VerifyFrom.
	End channels.Position `json:"end"`
	// Seen is the newest entry that servers have seen, if the log was compared with it.
	Seen     channels.Position `json:"seen,omitzero"`
	Rings    bool              `json:"rings,omitempty"` // manifests of rings were verified
	Releases []string          `json:"releases"`        // verified releases
	// Pruned are releases whose bundles are gone, as the log says.
	Pruned   []string `json:"pruned,omitempty"`
	Findings Findings `json:"findings"` // empty if the channel is intact
}

// Findings are the problems of a channel.
type Findings []Finding

// Err joins the findings, nil if there are none.
func (all Findings) Err() error {
	var errs []error
	for _, f := range all {
		errs = append(errs, f.Err)
	}
	return errors.Join(errs...)
}

// MendHistory returns the hint for a log that was shortened or rewritten since a position was
// seen.
func MendHistory(channel string, seen channels.Position) string {
	return "bring the rightful log back from a copy; if the store was restored from a backup and nothing newer is left, `tsmon channel verify " + channel + " --from " + seen.String() + " --accept` gives up what is lost"
}

// find adds a problem. The hint of a refusal replaces mend.
func (all *Findings) find(object string, err error, mend string) {
	if refusal := (*bundle.Refusal)(nil); errors.As(err, &refusal) {
		mend = refusal.Mend
	}
	*all = append(*all, Finding{Object: object, Problem: err.Error(), Mend: mend, Err: err})
}

// verification is one run of Verify.
type verification struct {
	Keeper
	log    *channels.Log
	report *VerifyReport
}

// Verify checks a channel in the store: the numbers and hashes of its log, its
// manifest and those of its rings byte for byte against the log, and every release in
// the log: its record, and its bundles by size, checksum and signature. It reads every byte of
// the bundles that the head offers.
//
// Without a public URL, bundles may be at any address.
func (k Keeper) Verify(ctx context.Context, channel string) (*VerifyReport, error) {
	return k.VerifyFrom(ctx, channel, channels.Position{})
}

// VerifyFrom is Verify, and also checks that the log contains the position that was seen
// before, unless that is the zero value or a signed entry gives it up.
func (k Keeper) VerifyFrom(ctx context.Context, channel string, from channels.Position) (*VerifyReport, error) {
	if err := library.CheckKeys(k.Library.Keys); err != nil {
		return nil, err
	}
	v := &verification{Keeper: k, report: &VerifyReport{Channel: channel, Findings: Findings{}}}
	v.Channels.Thorough = true
	log, err := v.Channels.Load(ctx, channel)
	if errors.Is(err, channels.ErrLog) {
		v.report.Findings.find(fault.Of(err, channel).Object, err, MendLog(err, channel))
		return v.report, v.strays(ctx)
	}
	if err != nil {
		return nil, err
	}
	head := log.Head()
	if head == nil {
		if gone, err := k.gone(ctx, channel, from); err != nil || gone != nil {
			v.report.Findings.find(channels.LogPrefix(channel), gone, mendEntries(channel))
			return v.report, err
		}
		return nil, bundle.Refuse(library.ErrNoRelease, "`tsmon channel list` shows the channels of the store", "%s shows nothing", channel)
	}
	v.log, v.report.Version, v.report.Entries, v.report.End = log, head.Version, len(log.Entries), log.End()
	v.report.Fed = log.Fed()
	if err := log.Continues(from); err != nil && (k.Channels.Trust[channel].Operators == nil || !log.Accepts(from)) {
		v.report.Findings.find("log/"+channel, err, MendHistory(channel, from))
	}
	if err := v.strays(ctx); err != nil {
		return nil, err
	}
	unnamed, err := k.Unnamed(ctx)
	if err != nil {
		return nil, err
	}
	v.report.Findings = append(v.report.Findings, unnamed...)
	if err := v.shown(ctx); err != nil {
		return nil, err
	}
	for _, version := range library.VersionsOf(log) {
		if err := v.release(ctx, version, version == head.Version || version == head.Newest()); err != nil {
			return nil, err
		}
	}
	return v.report, nil
}

// gone returns an error if there is evidence that a log was removed: manifests, segments, or
// from, the position that was seen.
func (k Keeper) gone(ctx context.Context, channel string, from channels.Position) (gone, err error) {
	seen, err := k.Channels.Peek(ctx, channel)
	if err != nil {
		return nil, err
	}
	packed, err := k.Channels.Salvage().WrongSegments(ctx, &channels.Log{Channel: channel})
	if last := max(from.Sequence, channels.Ahead(seen, 0)); last > 0 {
		return fmt.Errorf("%w: all entries of %s are gone, and there were %d", channels.ErrLog, channel, last), err
	} else if len(packed) > 0 {
		return fmt.Errorf("%w: all entries of %s are gone, and %s has some", channels.ErrLog, channel, packed[0].Key), err
	}
	return nil, err
}

// Behind returns the keys of the channel's manifests, including rings, that don't match the
// log, as after a publisher was killed.
func (k Keeper) Behind(ctx context.Context, log *channels.Log) (keys []string, err error) {
	r := k.Channels
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

// shown compares the manifests that clients read, including those of rings, with the log.
func (v *verification) shown(ctx context.Context) error {
	seen, err := v.Channels.Peek(ctx, v.log.Channel)
	if err != nil {
		return err
	}
	known := map[string]bool{} // manifests that were checked, by their bytes
	v.report.Rings = v.Channels.HasRings(v.log.Channel)
	for i, view := range v.log.Views(v.report.Rings) {
		if shown := channels.Ahead(seen[i:i+1], v.log.End().Sequence); shown > v.log.End().Sequence {
			v.report.Findings.find(view.Key, fmt.Errorf("%w: %s shows entry %d, which is missing", channels.ErrLog, view.Key, shown), mendWith(v.log.Channel))
			continue
		}
		v.view(view, seen[i].Data)
		if data := string(seen[i].Data); data != "" && !known[data] && !view.IsList() {
			known[data] = true
			if _, problems := manifest.Check(seen[i].Data, manifest.Rules{Keys: v.Library.Keys, AllowUnbound: v.Unbound(v.log.Channel)}); len(problems) > 0 {
				mend := problems[0].Mend
				if errors.Is(problems, signing.ErrUnbound) {
					mend = "publish a higher version with signatures that name it, or set allow_unbound: true for " + v.log.Channel + " in tsmon.yaml, as on the servers that show it"
				}
				if errors.Is(problems, signing.ErrUntrustedKey) {
					mend = mendKey
				}
				v.report.Findings.find(view.Key, problems.Gist(), mend)
			}
		}
	}
	if v.report.Rings {
		return nil
	}
	return v.noRings(ctx)
}

// view compares a manifest or a list with what it should show.
func (v *verification) view(view channels.View, data []byte) {
	mend := "`tsmon channel repair " + v.log.Channel + "` brings it up to date"
	base, ok := view.Shows(data)
	switch {
	case ok && data == nil: // nothing to list
	case data == nil:
		v.report.Findings.find(view.Key, fmt.Errorf("%w: %s is missing", library.ErrStored, view.Key), mend)
	case !ok:
		v.report.Findings.find(view.Key, fmt.Errorf("%w: %s is not what entry %d says", library.ErrStored, view.Key, view.Sequence), mend)
	case v.Channels.PublicURL != "" && base != v.Channels.PublicURL && base != "":
		v.report.Findings.find(view.Key, fmt.Errorf("%w: the addresses in %s lead to %s, public_url is %s", library.ErrStored, view.Key, base, v.Channels.PublicURL), mend)
	}
}

// noRings finds manifests of rings in a channel that no longer keeps rings: their clients would
// get no updates.
func (v *verification) noRings(ctx context.Context) error {
	key := channels.RingKey(v.log.Channel, 0)
	_, err := v.Library.Store.Stat(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		v.report.Findings.find(key, fmt.Errorf("%w: %s has rings that are not kept", library.ErrStored, v.log.Channel),
			"set rings: true for "+v.log.Channel+" in tsmon.yaml; installed applications may read them")
	}
	return err
}

// release checks one release; whole reads every byte. An error means that it
// could not be checked.
func (v *verification) release(ctx context.Context, version string, whole bool) error {
	record, err := v.Library.Named(ctx, version, v.log.Record(version))
	if v.log.Pruned(version) && (err == nil || errors.Is(err, library.ErrStored) || errors.Is(err, library.ErrNoRelease)) {
		return v.pruned(ctx, version, record)
	}
	if err == nil {
		v.report.Releases = append(v.report.Releases, version)
		err = v.Library.VerifyStored(ctx, record, true)
	}
	if err == nil {
		err = v.signatures(ctx, record, whole)
	}
	if err == nil || !faulty(err) {
		return err
	}
	if errors.Is(err, library.ErrStored) || errors.Is(err, library.ErrNoRelease) {
		err = &bundle.Refusal{Cause: err, Mend: mendWith(v.log.Channel)}
	}
	v.report.Findings.find(library.Folder(version), err, mendKey)
	return nil
}

const mendKey = "add the key that signed it to trusted_keys, with until: VERSION if it has ended; if the key is there, publish a higher version"

// mendWith returns the hint for lost objects.
func mendWith(channel string) string {
	return "`tsmon channel repair " + channel + " --bundle FILE` puts back the bytes of lost objects that you still have; without --bundle it has the log say what is lost, once clients are offered a higher version"
}

// mendEntries returns the hint for lost entries that can't be declared lost.
func mendEntries(channel string) string {
	return "`tsmon channel repair " + channel + " --bundle FOLDER` brings entries back, FOLDER with a copy of " + channels.LogPrefix(channel) + ": a backup has one, a file of `tsmon release export`, which tar unpacks, and each store that is fed from this one"
}

// MendLog returns the hint for a log that can't be read.
func MendLog(err error, channel string) string {
	f := fault.Of(err, channel)
	switch {
	case errors.Is(err, channels.ErrFuture):
		return mendFuture(channel)
	case errors.Is(err, fault.ErrBare):
		return "`tsmon channel appoint " + channel + "` puts them in force; if another store feeds this one, run it there, and bring the log here again"
	case errors.Is(err, fault.ErrStrangers):
		return "write the operators of " + channel + " into tsmon.yaml as it has them where the channel is moved; if they are right, and were put in force behind the entries that are here, bring those with `tsmon release import` or `tsmon release mirror`, before anything moves; if they are to change, `tsmon channel appoint " + channel + "` there has those in force approve it; if nobody knows those of the log, somebody replaced it: `tsmon channel repair " + channel + " --bundle COPY --take-out FOLDER` moves his to FOLDER and brings the rightful one back, COPY being a folder with its entries"
	case f.Blame == fault.Intruder:
		return "somebody wrote " + f.Object + " who may not: `tsmon channel repair " + channel + " --take-out FOLDER` moves it to FOLDER, with what stands behind it; if it was rightful once, add --bundle FILE with those bytes"
	case f.Blame == fault.Needed:
		return mendEntries(channel)
	case f.Blame == fault.Damaged:
		return mendWith(channel)
	}
	return mendWith(channel) + "; --take-out FOLDER moves away what somebody wrote behind the rightful entries"
}

// mendFuture returns the hint for an entry from the future.
func mendFuture(channel string) string {
	return "wait until then, or set the store's clock by NTP if that is wrong; if the entry was made by a wrong clock, `tsmon channel verify " + channel + " --accept` has the log go on from now"
}

// pruned finds bundles of a pruned release that are in the store again with different bytes.
func (v *verification) pruned(ctx context.Context, version string, record *library.Record) error {
	v.report.Pruned = append(v.report.Pruned, version)
	if record == nil {
		return nil
	}
	for _, b := range record.Bundles {
		key := library.BundleKey(record.Version, b.Name)
		same, err := v.Library.Holds(ctx, key, b.Size, b.CRC64)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !same:
			v.report.Findings.find(key, fmt.Errorf("%w: %s has other bytes than were published", library.ErrStored, key), mendWith(v.log.Channel))
		}
	}
	return nil
}

// signatures compares the .sig objects with the record, and with whole the
// signatures with every byte of the bundles.
func (v *verification) signatures(ctx context.Context, record *library.Record, whole bool) error {
	for _, b := range record.Bundles {
		if !b.Updates() {
			continue
		}
		key := library.BundleKey(record.Version, b.Name)
		signed, err := v.signed(ctx, key, &b)
		if err != nil {
			return err
		}
		if !signed {
			return fmt.Errorf("%w: %s.sig is not the published signature", library.ErrStored, key)
		}
		sig, err := signing.ParseSignature(b.Signature)
		if err == nil && whole {
			err = v.Library.VerifyBytes(ctx, key, sig)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// signed reports whether the .sig object of a bundle is the published signature.
func (k Keeper) signed(ctx context.Context, key string, b *library.Stored) (bool, error) {
	data, err := k.Library.Read(ctx, key+".sig", signing.MaxSignature)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrTooLarge) {
		return false, nil
	}
	return string(data) == b.Signature, err
}

// faulty distinguishes problems of a release from failures to check it.
func faulty(err error) bool {
	return errors.As(err, new(*signing.FormatError)) || slices.ContainsFunc([]error{library.ErrNoRelease, library.ErrStored, signing.ErrSignature,
		signing.ErrUntrustedKey, signing.ErrBound, signing.ErrUnbound, signing.ErrLegacy}, func(cause error) bool { return errors.Is(err, cause) })
}
