package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
)

// intake collects and verifies what a store receives. The new entries count only after commit.
type intake struct {
	*release.Publisher
	from       library.Library // where fetch looks for missing records
	dry        bool
	mirrors    bool // the source is a store, not a file
	report     *Report
	standing   []*channels.Log // the store's own readable logs
	deliveries []*delivery
	releases   map[string]*incoming // by version

	mu      sync.Mutex
	lacking map[string]piece // by key
}

// incoming is a release in the new entries.
type incoming struct {
	sum     string          // SHA-256 of its record
	needed  bool            // the store must have its bundles
	unbound bool            // its signatures need not name the version
	record  *library.Record // nil until it is read
	data    []byte          // the bytes of the record
}

// delivery holds the new entries of one channel.
type delivery struct {
	before, after *channels.Log
	raw           [][]byte // the bytes of the new entries
}

// fresh returns the new entries.
func (d *delivery) fresh() []channels.Entry { return d.after.Entries[len(d.before.Entries):] }

// sideBySide is how many bundles are checked or copied at once.
const sideBySide = 4

// inOrder runs steps until one fails.
func inOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func newIntake(ctx context.Context, p *release.Publisher, from library.Library, dry bool) (*intake, error) {
	in := &intake{Publisher: p, from: from, dry: dry, report: &Report{DryRun: dry, Channels: []Channel{}, Releases: []Release{}}, releases: map[string]*incoming{}, lacking: map[string]piece{}}
	repository := p.Repository()
	names, err := repository.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		log, err := repository.Load(ctx, name)
		if errors.Is(err, channels.ErrLog) {
			continue // the method log reports the error if the channel is fed
		}
		if err != nil {
			return nil, err
		}
		in.standing = append(in.standing, log)
	}
	return in, nil
}

// log returns the log of a channel that is fed.
func (in *intake) log(ctx context.Context, name string) (*channels.Log, error) {
	if err := in.Configured(name); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(in.standing, func(log *channels.Log) bool { return log.Channel == name }); i >= 0 {
		return in.standing[i], nil
	}
	repository := in.Repository()
	log, err := repository.Load(ctx, name) // the log is empty, broken, or a delivery was interrupted
	if distrusted(err) {
		// The new entries may put the configured operators in force. follow demands that.
		repository.Trust[name] = channels.Trust{Root: in.Root}
		return repository.Load(ctx, name)
	}
	return log, err
}

// distrusted reports whether the only fault of a log is that the configured operators are not
// in force.
func distrusted(err error) bool {
	return errors.Is(err, fault.ErrStrangers) || errors.Is(err, fault.ErrBare)
}

// follow verifies the entries of a channel after since, and adds them as a delivery.
func (in *intake) follow(ctx context.Context, before *channels.Log, since channels.Position, raw [][]byte) error {
	name, end := before.Channel, before.End()
	last := since.Sequence + uint64(len(raw))
	switch {
	case since.Sequence > end.Sequence:
		return refuse(ErrAhead, in.again(name, end.Sequence), "%s begins after entry %d there, and ends at entry %d here", name, since.Sequence, end.Sequence)
	case differ(since.Hash, before.HashOf(since.Sequence)):
		return forked(name, since.Sequence)
	}
	for n := since.Sequence + 1; n <= min(last, end.Sequence); n++ {
		if data := raw[n-since.Sequence-1]; len(data) > 0 && differ(library.SumOf(data), before.HashOf(n)) {
			return forked(name, n)
		}
	}
	switch {
	case last < end.Sequence:
		return refuse(ErrOlder, in.older(name, last, end.Sequence), "%s ends at entry %d there, and at entry %d here", name, last, end.Sequence)
	case last < before.Begun():
		return refuse(ErrOlder, in.again(name, end.Sequence), "%s ends at entry %d there, and entries up to %d were begun here", name, last, before.Begun())
	}
	fresh := raw[end.Sequence-since.Sequence:]
	if len(fresh) > 0 && len(fresh[0]) > 0 && end.Hash != "" {
		if e, _, ok := channels.Candidate(fresh[0]); ok && e.Previous != end.Hash {
			return forked(name, end.Sequence)
		}
	}
	after, err := in.Repository().Follow(ctx, before, fresh)
	if errors.Is(err, channels.ErrFuture) {
		return &release.Refusal{Cause: err, Mend: "set the clock of this site's store, or of the machine that hosts it, by NTP; if that clock is right, `tsmon channel verify " + name + "` at the origin says how to fix its log"}
	}
	if distrusted(err) {
		return err
	}
	if err != nil {
		return &release.Refusal{Cause: err, Mend: "nothing was accepted: get a new copy from the origin; `tsmon channel verify " + name + "` there checks its log; tsmon.yaml here must name the same operators, and the same server.operators_root if that key put them in force"}
	}
	in.deliveries = append(in.deliveries, &delivery{before, after, fresh})
	in.report.Channels = append(in.report.Channels, Channel{name, "", end.Sequence, after.End().Sequence})
	return nil
}

// differ reports whether two hashes are known and not the same.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

func forked(name string, sequence uint64) error {
	return refuse(ErrForked, "`tsmon channel log "+name+"` on both sides shows where they differ; either somebody moved the channel on one side without being allowed to, or the origin was restored from a backup and then moved on; in the second case, start the site again in another storage", "entry %[2]d of %[1]s differs here", name, sequence)
}

// again returns the hint for getting missing entries.
func (in *intake) again(name string, since uint64) string {
	if in.mirrors {
		return "wait until the other store has it, or mirror the store that this one was fed from"
	}
	return exportMend(name, strconv.FormatUint(since, 10))
}

func exportMend(names, since string) string {
	return fmt.Sprintf("at the origin, run `tsmon release export %s --since %s --output FILE`: it writes everything that is missing here", names, since)
}

// older returns the hint for a log that ends before the log here.
func (in *intake) older(name string, last, end uint64) string {
	if in.mirrors {
		return in.again(name, end)
	}
	return fmt.Sprintf("take a newer file. If its origin was restored from a backup, run `tsmon release export %s --since %d --output FILE` here, which writes the entries that were lost there, and `tsmon release import FILE` there", name, last)
}

// missingMend returns the hint for getting missing objects.
func (in *intake) missingMend() string {
	if in.mirrors {
		return "`tsmon channel verify` with the other store as storage says what is wrong there; fix that, then run the same command again"
	}
	var names, since []string
	for _, d := range in.deliveries {
		names = append(names, d.before.Channel)
		since = append(since, fmt.Sprintf("%s=%d", d.before.Channel, d.before.End().Sequence))
	}
	return exportMend(strings.Join(names, " "), strings.Join(since, ","))
}

// settle collects the releases of the new entries. All logs must be known by then.
func (in *intake) settle(context.Context) error {
	for i, d := range in.deliveries {
		if head := d.after.Head(); head != nil {
			in.report.Channels[i].Version = head.Version
		}
		logs := append(slices.Clone(in.standing), d.after)
		for r := range library.Releases(d.fresh()) {
			for _, log := range logs {
				if sum := log.Record(r.Version); sum != "" && sum != r.Record {
					return refuse(library.ErrOtherBytes, "release it under another version, there or here", "%s is another release in %s", r.Version, log.Channel)
				}
			}
			known := in.releases[r.Version]
			if known == nil {
				known = &incoming{sum: r.Record}
				in.releases[r.Version] = known
			}
			if known.sum != r.Record {
				return refuse(library.ErrOtherBytes, "release it under another version, there or here", "%s is not the same release in all channels", r.Version)
			}
			known.unbound = known.unbound || in.Policies[d.after.Channel].AllowUnbound
		}
		has := lasting(d.before)
		for _, version := range lasting(d.after) {
			if known := in.releases[version]; known != nil && !slices.Contains(has, version) {
				known.needed = true
			}
		}
		if err := in.presentable(d); err != nil {
			return err
		}
		in.report.Changed = in.report.Changed || len(d.fresh()) > 0
	}
	return nil
}

// presentable checks the manifests that clients will read by the rules for every manifest.
func (in *intake) presentable(d *delivery) error {
	rules := manifest.Rules{Keys: in.Keys, AllowUnbound: in.Policies[d.after.Channel].AllowUnbound}
	head := d.after.Head()
	if head == nil || len(d.raw) == 0 {
		return nil
	}
	shows := []channels.Release{head.Release}
	if head.Rollout != nil {
		shows = append(shows, head.Rollout.Release)
	}
	for _, r := range shows {
		m := r.Render(in.PublicURL, head.Sequence)
		data, err := m.Encode()
		if err != nil {
			return err
		}
		if _, problems := manifest.Check(data, rules); len(problems) > 0 {
			mend := problems[0].Mend
			if errors.Is(problems, signing.ErrUntrustedKey) {
				mend = "if you know that the signing key is the application's, copy its public key from tsmon.yaml at the origin to trusted_keys here"
			}
			return &release.Refusal{Cause: fmt.Errorf("%s: %s: %w", d.after.Channel, r.Version, problems.Gist()), Mend: mend}
		}
	}
	return nil
}

// record verifies the record of a release, and keeps it for commit.
func (in *intake) record(version string, data []byte) error {
	wanted := in.releases[version]
	if wanted == nil || wanted.record != nil {
		return fmt.Errorf("%w: its record of %.70q is repeated, or no entry names it", ErrDamaged, version)
	}
	if library.SumOf(data) != wanted.sum {
		return fmt.Errorf("%w: the record of %s is not the one that the log names", ErrDamaged, version)
	}
	record, err := library.DecodeRecord(version, data)
	if err != nil {
		return err
	}
	for _, d := range in.deliveries {
		for r := range library.Releases(d.fresh()) {
			if r.Version != version {
				continue
			}
			if err := record.Backs(r); err != nil {
				return &release.Refusal{Cause: err, Mend: "nothing was accepted: `tsmon channel verify` at the origin says what is wrong"}
			}
		}
	}
	if wanted.needed {
		for _, b := range record.Bundles {
			if err := in.Library().Accept(version, b, wanted.unbound); err != nil {
				return err
			}
		}
	}
	wanted.record, wanted.data = record, data
	return nil
}

// fetch reads the needed records that are still missing from a store that may have them.
func (in *intake) fetch(ctx context.Context) error {
	for version, r := range in.releases {
		if !r.needed || r.record != nil {
			continue
		}
		data, err := in.from.RecordData(ctx, version, r.sum)
		if errors.Is(err, library.ErrNoRelease) || errors.Is(err, library.ErrStored) {
			continue // it stays missing
		}
		if err != nil {
			return err
		}
		if err := in.record(version, data); err != nil {
			return err
		}
	}
	return nil
}

// stock finds the needed bundles that the store lacks. All records must be known by then.
func (in *intake) stock(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * sideBySide)
	for version, r := range in.releases {
		if !r.needed || r.record == nil {
			continue
		}
		for _, b := range r.record.Bundles {
			group.Go(func() error {
				whole, err := in.Library().Whole(ctx, version, b)
				if err != nil || whole {
					return err
				}
				in.mu.Lock()
				defer in.mu.Unlock()
				in.lacking[library.BundleKey(version, b.Name)] = piece{version, b}
				return nil
			})
		}
	}
	return group.Wait()
}

// receive copies a bundle that the store lacks.
func (in *intake) receive(ctx context.Context, b piece, r io.Reader) error {
	key := library.BundleKey(b.version, b.Name)
	var err error
	if in.dry {
		_, err = io.Copy(io.Discard, b.Checked(bundle.Counted(r, key, b.Size, in.Transferred)))
	} else {
		err = in.Library().Receive(ctx, b.version, b.Stored, bundle.Counted(r, key, b.Size, in.Uploaded), in.releases[b.version].unbound)
	}
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.lacking, key)
	in.report.carried(b.version, b.Size)
	return nil
}

// missing lists the keys of needed objects that the store lacks, sorted.
func (in *intake) missing() []string {
	keys := slices.Collect(maps.Keys(in.lacking))
	for version, r := range in.releases {
		if r.needed && r.record == nil {
			keys = append(keys, library.RecordKey(version, 1))
		}
	}
	slices.Sort(keys)
	return keys
}

// maxNamed is how many missing objects an error names.
const maxNamed = 5

// whole returns an error unless the store has every object that the new entries need.
func (in *intake) whole(context.Context) error {
	keys := in.missing()
	if len(keys) == 0 {
		return nil
	}
	names := strings.Join(keys[:min(len(keys), maxNamed)], ", ")
	if len(keys) > maxNamed {
		names += fmt.Sprintf(" and %d more", len(keys)-maxNamed)
	}
	return refuse(ErrMissing, in.missingMend(), "%s", names)
}

// commit puts the new entries into force and writes the manifests. The store must have every
// object that the entries need.
func (in *intake) commit(ctx context.Context) error {
	slices.SortFunc(in.report.Releases, func(a, b Release) int { return library.CompareVersions(a.Version, b.Version) })
	if in.dry {
		return nil
	}
	for _, version := range slices.Sorted(maps.Keys(in.releases)) {
		r := in.releases[version]
		if r.record == nil { // its bundles were pruned
			continue
		}
		if err := in.Library().PutRecord(ctx, version, r.data); err != nil {
			return err
		}
	}
	repository := in.Repository()
	for _, d := range in.deliveries {
		if err := repository.Feed(ctx, d.before, d.raw); err != nil {
			return err
		}
		if d.after.Head() == nil {
			continue
		}
		log, moved, err := repository.Repoint(ctx, d.before)
		if err != nil {
			return err
		}
		in.report.Changed = in.report.Changed || moved
		if len(d.raw) > 0 {
			_ = repository.PackAll(ctx, log) // if it fails, the log is read entry by entry
		}
	}
	return nil
}
