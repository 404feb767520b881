package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/release/library"
)

// probe fetches what clients get from every channel that was moved. It downloads bundles unless
// nothing changed, as is usual for steps of rollouts.
func (w *applying) probe(ctx context.Context) error {
	plan := w.plan
	if w.Probe == nil {
		return nil
	}
	for _, each := range append([]*Plan{plan}, plan.Followers...) {
		if each.Waiting != nil {
			continue
		}
		moved := movedTo(each)
		err := w.Inspector().fetch(ctx, each.log, moved, each.Changed || len(each.Bundles) > 0)
		each.Probed = err == nil
		if errors.Is(err, ErrUnseen) {
			plan.Warnings = append(plan.Warnings, fmt.Sprintf("%s, but %v", moved, err))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// fetch fetches what clients get from a channel with a log, up to the first wrong address. moved
// says what the channel shows, for the error.
func (in Inspector) fetch(ctx context.Context, log *channels.Log, moved string, bundles bool) error {
	for _, v := range in.sights(log) {
		address := in.p.PublicURL + "/" + v.Key
		in.p.step("fetching %s as a client", address)
		err := in.p.Probe(ctx, address, v.Render(in.p.PublicURL), bundles)
		if err != nil && !errors.Is(err, ErrUnseen) {
			err = &Refusal{Cause: fmt.Errorf("%w: %w", ErrProbe, err), Text: moved, Mend: mendSight(log.Channel, address, err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// movedTo says what a channel shows after a plan.
func movedTo(plan *Plan) string {
	head := plan.head
	if r := head.Rollout; r != nil && r.Paused.IsZero() {
		return fmt.Sprintf("%s shows %s to everybody and rolls out %s (entry %d)", plan.Channel, head.Version, r.Version, head.Sequence)
	}
	return fmt.Sprintf("%s has moved to %s (entry %d)", plan.Channel, head.Version, head.Sequence)
}

// readable refuses a move if clients may not read the release's files or the channel's folder.
// It fetches one file of each, since access is granted by folder. Of a release it fetches a
// signature, so that no download is counted.
func (w *applying) readable(ctx context.Context) error {
	plan := w.plan
	if w.Readable == nil || plan.Entry == nil || plan.Action != channels.Publish && plan.Action != channels.Promote {
		return nil
	}
	files := w.PublicURL + "/" + strings.TrimSuffix(library.Folder(plan.Version), "/")
	offered := (&library.Record{Version: plan.Version, Bundles: plan.Bundles}).Manifest(files)
	keys := offered.Keys()
	if len(keys) == 0 {
		return nil
	}
	hidden := w.Readable(ctx, offered.Platforms[keys[0]].URL+".sig")
	if hidden == nil {
		if hidden = w.Readable(ctx, plan.URL); hidden != nil && !w.tells(ctx, plan.Channel, files) {
			return nil
		}
	}
	if hidden != nil {
		return refuse(ErrHidden, "let everybody read releases/ and the folder of each channel in the storage, such as "+plan.Channel+"/, and nothing else, with the policy in the guide (release/README.md, Configure the storage), or set server.updates.token (TSMON_UPDATES_TOKEN) if the server there wants one; then run the same command again. `tsmon doctor` looks at the rest of public_url, --no-probe skips this",
			"%s stays as it is: %v", plan.Channel, hidden)
	}
	return nil
}

// tells reports whether a manifest that can't be read means that the channel's folder can't be
// read. Stores such as Amazon S3 may also answer 403 for a missing object; then they do so in the
// readable folder of a release as well.
func (w *applying) tells(ctx context.Context, channel, files string) bool {
	if _, err := w.Store.Stat(ctx, channels.ManifestKey(channel)); err == nil {
		return true
	}
	return w.Readable(ctx, files+"/missing") == nil
}

// Seen fetches the manifests that clients of a channel read, those of rings, too, without
// bundles. Errors wrap ErrProbe, or ErrUnseen where only time may be missing.
func (in Inspector) Seen(ctx context.Context, channel string) error {
	log, err := in.channels.Load(ctx, channel)
	if err != nil || log.Head() == nil || in.p.Probe == nil {
		return err
	}
	return in.fetch(ctx, log, "", false)
}

// mendSight returns the hint for an address where clients don't get what the channel shows.
func mendSight(channel, address string, err error) string {
	if errors.Is(err, ErrWithheld) {
		return "look for the alarm of the server there: it shows nothing of a channel that it does not believe. If the store was begun anew, or restored from a backup, `tsmon channel verify " + channel + " --accept` gives up what the server had seen; --no-probe skips this"
	}
	if !strings.HasSuffix(address, "/"+channels.ManifestKey(channel)) { // it is a ring's
		return "set rings: true for " + channel + " in the tsmon.yaml of the tsmon serve there and reload it (SIGHUP), or let anybody read " + channel + "/rings/ in the bucket; --no-probe skips this"
	}
	return "check that public_url leads to the store, and that a server runs there; `tsmon manifest validate " + address + "` looks again, --no-probe skips this"
}

// sights returns the manifest of a channel and, for each version in its rings, the manifest of the
// ring that changed last.
func (in Inspector) sights(log *channels.Log) []channels.View {
	views := log.Views(in.p.Policies[log.Channel].Rings)
	newest := map[string]channels.View{}
	for _, v := range views {
		if _, _, ok := channels.RingIn(v.Key); ok && v.Sequence > newest[v.Version()].Sequence {
			newest[v.Version()] = v
		}
	}
	all := views[:1:1]
	for _, version := range slices.Sorted(maps.Keys(newest)) {
		all = append(all, newest[version])
	}
	return all
}
