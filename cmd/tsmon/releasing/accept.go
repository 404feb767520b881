package releasing

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
	"tsmon/release/approval"
	"tsmon/store/record"
)

// Accepted is what `tsmon channel verify --accept` prints where no operators are
// configured.
type Accepted struct {
	Channel string            `json:"channel"`
	Given   channels.Position `json:"given_up"` // what servers had seen
	End     channels.Position `json:"end"`      // end of the log, which servers accept from now on
	Changed bool              `json:"changed"`
	DryRun  bool              `json:"dry_run,omitempty"` // nothing was written
}

// runAccept gives up entries that servers have seen and that are missing from the channel's
// log.
func runAccept(ctx context.Context, app *cli.App, channel string, from channels.Position, f moveFlags) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	_, _, log, err := showing.LoadLog(ctx, app, channel)
	early := errors.Is(err, channels.ErrFuture)
	if len(c.Operators) == 0 && !early {
		if err != nil {
			return err
		}
		return acceptInRecords(ctx, app, c, log, from, f.dryRun)
	}
	if from.Sequence == 0 && !early {
		if from, err = cli.Seen(ctx, c, channel); err != nil {
			return err
		}
		if from.Sequence == 0 {
			return cli.WithHint(cli.Usagef("--accept needs --from: the records here know of no server that has seen %s", channel), "give --from SEQUENCE:HASH, which the alarm of the server names")
		}
	}
	return f.move(ctx, app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
		plan, err := p.Accept(ctx, channel, from, "", f.dryRun)
		if err == nil && plan.Entry == nil {
			plan.Warnings = append(plan.Warnings, fmt.Sprintf("the log contains %s, so there is nothing to give up; if a server refuses the log, its alarm names another SEQUENCE:HASH: pass that with --from", from))
		}
		return plan, err
	})
}

func acceptInRecords(ctx context.Context, app *cli.App, c *config.Config, log *channels.Log, from channels.Position, dry bool) error {
	channel := log.Channel
	accepted := Accepted{Channel: channel, End: log.End(), DryRun: dry}
	err := cli.WithRecords(ctx, c, func(records record.Store) error {
		histories := fleet.Histories{Records: records, Store: c.StoreName()}
		seen, err := histories.Seen(ctx, channel)
		switch {
		case err != nil:
			return err
		case seen.Sequence == 0:
			return cli.ErrNoRecords
		}
		if from.Sequence > 0 && seen != from && log.Continues(seen) != nil {
			return &release.Refusal{Cause: channels.ErrHistory, Text: fmt.Sprintf("the servers have seen %s, not %s", seen, from), Mend: "repeat it with --from and what the servers have seen"}
		}
		accepted.Given = seen
		if log.Continues(seen) == nil {
			return nil
		}
		if accepted.Changed = true; dry {
			return nil
		}
		accepted.Changed, err = histories.See(ctx, channel, seen, accepted.End)
		if err == nil && !accepted.Changed {
			err = fmt.Errorf("%w: a server has recorded another end of the log in the meantime", approval.ErrStale)
		}
		return err
	})
	if errors.Is(err, cli.ErrNoRecords) {
		return cli.WithHint(cli.Usagef("--accept gives up what servers have seen of %s, but the records here know of no server", channel),
			"run it where server.records (TSMON_RECORDS) or TSMON_DATA name the records of the servers; where no server runs there is nothing to settle")
	}
	if err != nil {
		return err
	}
	return app.Print(accepted, func(w io.Writer) {
		switch {
		case !accepted.Changed && from.Sequence > 0 && log.Continues(from) != nil:
			fmt.Fprintf(w, "%s: servers have seen %s, and the log continues from there; none has seen %s, nothing to do\n", channel, accepted.Given, from)
		case !accepted.Changed:
			fmt.Fprintf(w, "%s: the log continues from what servers have seen, nothing to do\n", channel)
		case dry:
			fmt.Fprintf(w, "%s: servers would accept the log that ends at %s; %s would be given up\n", channel, accepted.End, accepted.Given)
		default:
			fmt.Fprintf(w, "%s: servers accept the log that ends at %s; %s is given up\n", channel, accepted.End, accepted.Given)
		}
	})
}
