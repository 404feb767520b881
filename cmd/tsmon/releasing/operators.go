package releasing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
	"tsmon/release/library"
)

// oneEntry has the flags that show one entry of a log as operators signed it.
type oneEntry struct {
	number   uint64
	raw      bool
	operator string
}

func (o *oneEntry) add(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&o.number, "entry", 0, "number `N` of the entry that --raw or --signature print")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "print the bytes of the entry that operators signed")
	cmd.Flags().StringVar(&o.operator, "signature", "", "print the signature of an `OPERATOR`, for ssh-keygen -Y verify -n "+channels.Namespace)
}

func (o *oneEntry) run(ctx context.Context, app *cli.App, channel string) error {
	if o.number == 0 || o.raw == (o.operator != "") {
		return cli.WithHint(cli.Usagef("--entry goes with --raw or with --signature"), "write --entry 7 --raw, or --entry 7 --signature ann")
	}
	log, _, err := LoadLog(ctx, app, channel)
	if err != nil {
		return err
	}
	e := log.At(o.number)
	if e == nil {
		return &release.Refusal{Cause: library.ErrNoRelease, Text: fmt.Sprintf("%s has no entry %d", channel, o.number), Mend: "`tsmon channel log " + channel + "` shows its entries"}
	}
	if o.raw {
		payload, err := e.Payload()
		if err == nil {
			_, err = app.Stdout.Write(payload)
		}
		return err
	}
	for i, who := range e.SignedBy(log.InForce(e.Sequence)) {
		if who == o.operator {
			_, err := io.WriteString(app.Stdout, e.Signatures[i])
			return err
		}
	}
	return &release.Refusal{Cause: channels.ErrUnsigned, Text: fmt.Sprintf("%s has not signed entry %d of %s", o.operator, o.number, channel), Mend: "`tsmon channel log " + channel + " --json` lists who signed each entry"}
}

func channelAppointCommand(app *cli.App) *cobra.Command {
	var f moveFlags
	all := false
	cmd := &cobra.Command{
		Use:   "appoint CHANNEL…",
		Short: "Put the configured operators of channels in force",
		Long: `Put the operators and approvals of tsmon.yaml in force for channels, with an entry of
each one's log. From then on every move needs their signatures, whatever tsmon.yaml says.
Those who are in force must agree, and enough of the new ones must sign, too; where too
many keys are lost, a key of server.operators_root takes the place of the former.

--all takes every channel of tsmon.yaml but those that show nothing yet, whose first entry
has its operators anyway, and those that another store feeds.`,
		Example: `  tsmon channel appoint --all --reason "two of three from now on"
  tsmon channel appoint stable --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return cli.WithHint(cli.Usagef("one or more CHANNEL, or --all, are needed"), "write `tsmon channel appoint stable`, or --all for every channel of tsmon.yaml")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runAppoint(cmd.Context(), app, f, args) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "every channel of tsmon.yaml")
	f.addReason(cmd, remark)
	f.addDry(cmd)
	f.wait.Add(cmd)
	return cmd
}

// runAppoint appoints the operators of channels, of all without names.
func runAppoint(ctx context.Context, app *cli.App, f moveFlags, names []string) error {
	c, p, progress, err := f.publisher(ctx, app)
	if err != nil {
		return err
	}
	all := len(names) == 0
	if all {
		names = slices.Sorted(maps.Keys(c.Channels))
	}
	if err := p.Configured(names...); err != nil {
		return err
	}
	return f.moveEach(ctx, app, p, progress, names, func(name string) (*release.Plan, error) {
		plan, err := p.Appoint(ctx, f.options(name), names...)
		if all && (errors.Is(err, library.ErrNoRelease) || errors.Is(err, channels.ErrFed)) {
			return nil, nil
		}
		return plan, err
	})
}
