package feed

import (
	"context"
	"io"
	"slices"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/library"
	"tsmon/release/upkeep"
)

// Check verifies an export that begins with the first entry, as Import does, but without a
// store: the publisher's store is empty. An export that begins later fails with ErrAhead. The
// report covers one channel of the file. Its log must continue from the given position,
// unless that is the zero value.
func Check(ctx context.Context, p *release.Publisher, file io.Reader, channel string, from channels.Position) (*upkeep.VerifyReport, error) {
	in, err := take(ctx, p, file, true)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(in.deliveries, func(d *delivery) bool { return d.after.Channel == channel })
	if i < 0 {
		return nil, refuse(library.ErrNoRelease, "name one of its channels, as `tsmon release import FILE --dry-run` lists them", "the file does not contain %s", channel)
	}
	log := in.deliveries[i].after
	report := &upkeep.VerifyReport{Channel: channel, Entries: len(log.Entries), End: log.End(), Releases: lasting(log), Findings: []upkeep.Finding{}}
	if head := log.Head(); head != nil {
		report.Version = head.Version
	}
	if err := log.Continues(from); err != nil && (p.Policies[channel].Operators == nil || !log.Accepts(from)) {
		report.Findings = append(report.Findings, upkeep.Finding{Object: channels.LogPrefix(channel), Problem: err.Error(), Err: err,
			Mend: "the file has another log, or an older state of it: export the channel again, and compare it with the entries that the servers have seen"})
	}
	return report, nil
}
