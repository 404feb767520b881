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

// Check verifies a file that Export wrote from the first entry on, as Import does, and
// reaches no store for it: the publisher's is empty. The report is about one of its channels,
// whose log must go on from a position, unless that is the zero value. ErrAhead of a file that
// begins later.
func Check(ctx context.Context, p *release.Publisher, file io.Reader, channel string, from channels.Position) (*upkeep.VerifyReport, error) {
	in, err := take(ctx, p, file, true)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(in.deliveries, func(d *delivery) bool { return d.after.Channel == channel })
	if i < 0 {
		return nil, refuse(library.ErrNoRelease, "name one of its channels, as `tsmon release import FILE --dry-run` lists them", "the file has nothing of %s", channel)
	}
	log := in.deliveries[i].after
	report := &upkeep.VerifyReport{Channel: channel, Entries: len(log.Entries), End: log.End(), Releases: lasting(log), Findings: []upkeep.Finding{}}
	if head := log.Head(); head != nil {
		report.Version = head.Version
	}
	if err := log.Continues(from); err != nil && (p.Policies[channel].Operators == nil || !log.Accepts(from)) {
		report.Findings = append(report.Findings, upkeep.Finding{Object: channels.LogPrefix(channel), Problem: err.Error(), Err: err,
			Mend: "it is the export of another log, or of an older state: export it again, and compare with what the servers have seen"})
	}
	return report, nil
}
