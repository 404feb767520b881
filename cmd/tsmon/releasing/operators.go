package releasing

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
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
	cmd := &cobra.Command{
		Use:   "appoint CHANNEL",
		Short: "Put the configured operators of a channel in force",
		Long: `Put the operators and approvals of tsmon.yaml in force for a channel, with an entry
of its log. From then on every move needs their signatures, whatever tsmon.yaml says.
Those who are in force must agree, and enough of the new ones must sign, too; where too
many keys are lost, a key of server.operators_root takes the place of the former.`,
		Example: `  tsmon channel appoint stable --reason "two of three from now on"
  tsmon channel appoint stable --dry-run`,
		Args: cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
				return p.Appoint(cmd.Context(), f.options(args[0]))
			})
		},
	}
	f.addReason(cmd, remark)
	f.addDry(cmd)
	f.addWait(cmd)
	return cmd
}

// PlanCommand returns `tsmon plan`.
func PlanCommand(app *cli.App) *cobra.Command {
	return cli.Group("plan", "Approve moves that wait for the signatures of operators",
		planListCommand(app), planShowCommand(app),
		planMakeCommand(app, false, &cobra.Command{
			Use:   "approve [HASH] [--channel CHANNEL]",
			Short: "Sign a plan, and make it if that was the last signature",
			Long: `Verify the bundles of a plan in the store and sign it with the key in
TSMON_OPERATOR_KEY, or in the agent. Whoever brings the last signature makes the move.
Without HASH it is the only plan of the channel; the first digits are enough.`,
			Example: "  tsmon plan approve 3f9a\n  tsmon plan approve --channel beta",
		}),
		planMakeCommand(app, true, &cobra.Command{
			Use:   "apply [HASH] [--channel CHANNEL]",
			Short: "Make a plan that has all signatures, without signing it",
			Long: `Make a plan that has all signatures. That is needed only where the last one was
brought by a command that was interrupted.`,
			Example: "  tsmon plan apply 3f9a",
		}))
}

func planListCommand(app *cli.App) *cobra.Command {
	channel := ""
	cmd := &cobra.Command{
		Use:     "list [--channel CHANNEL]",
		Short:   "List the plans that wait",
		Example: "  tsmon plan list",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := reader(cmd.Context(), app, nil)
			if err != nil {
				return err
			}
			all, err := p.Plans().List(cmd.Context(), channel)
			if err != nil {
				return err
			}
			rows := [][]string{{"PLAN", "CHANNEL", "ACTION", "VERSION", "BY", "SIGNED", "APPROVALS", "STATE"}}
			for _, w := range all {
				rows = append(rows, []string{w.Hash[:12], w.Channel, string(w.Entry.Action), w.Entry.Newest(), w.Entry.Who, strings.Join(w.Signed, ","), approvals(w), planState(w)})
			}
			return app.Print(all, func(w io.Writer) { cli.Table(w, rows) })
		},
	}
	channelFlag(cmd, &channel)
	return cmd
}

func approvals(w *release.Waiting) string {
	return strconv.Itoa(w.Has) + " of " + strconv.Itoa(w.Needs)
}

func planState(w *release.Waiting) string {
	if w.Stale != "" {
		return "out of date: " + w.Stale
	}
	return "waits until " + w.Expires.Format(time.RFC3339)
}

func planShowCommand(app *cli.App) *cobra.Command {
	channel, verbose := "", false
	cmd := &cobra.Command{
		Use:     "show [HASH] [--channel CHANNEL]",
		Short:   "Show a plan that waits, and who gets what once it is made",
		Example: "  tsmon plan show 3f9a",
		Args:    cli.Args(0, 1, "at most one HASH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := reader(cmd.Context(), app, nil)
			if err != nil {
				return err
			}
			w, err := p.ShowPlan(cmd.Context(), channel, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return app.Print(w, func(out io.Writer) { printWaiting(out, w, p.Policies[channel].Rings, verbose) })
		},
	}
	channelFlag(cmd, &channel)
	cmd.Flags().BoolVar(&verbose, "verbose", false, "list every installed version, instead of ranges that get the same")
	return cmd
}

// printWaiting writes what a plan does, what it waits for, and who gets what, for people.
func printWaiting(out io.Writer, w *release.Waiting, rings, verbose bool) {
	e := w.Entry
	fmt.Fprintf(out, "plan %s\n%s: %s %s (entry %d) by %s at %s\n", w.Hash, w.Channel, e.Action, e.Newest(), e.Sequence, e.Who, e.When.Format(time.RFC3339))
	if e.Why != "" {
		fmt.Fprintf(out, "  %s\n", e.Why)
	}
	if e.Rollout != nil {
		fmt.Fprintf(out, "  %s\n", ShareText(release.ShareOf(e.Rollout, false)))
	}
	if o := e.Operators; o != nil {
		fmt.Fprintf(out, "  from then on %d of these must sign: %s\n", o.Approvals, strings.Join(namesOf(o.Keys), ", "))
	}
	fmt.Fprintf(out, "  record %s\n", e.Release.Record)
	fmt.Fprintf(out, "approvals: %s", approvals(w))
	if len(w.Signed) > 0 {
		fmt.Fprintf(out, ", by %s", strings.Join(w.Signed, ", "))
	}
	fmt.Fprintf(out, "\nmay sign: %s\n%s\n", strings.Join(w.Missing, ", "), planState(w))
	if len(w.Reach) > 0 {
		fmt.Fprintln(out)
		printTable(out, w.Reach, rings, verbose)
	}
}

func namesOf(keys map[string]string) []string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// planMakeCommand completes cmd, which approves a plan, or only applies it.
func planMakeCommand(app *cli.App, apply bool, cmd *cobra.Command) *cobra.Command {
	var f moveFlags
	channel := ""
	cmd.Args = cli.Args(0, 1, "at most one HASH")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
			return p.Approve(cmd.Context(), channel, strings.Join(args, ""), apply)
		})
	}
	channelFlag(cmd, &channel)
	f.addWait(cmd)
	cmd.Flags().BoolVar(&f.noProbe, "no-probe", false, "do not fetch the public address afterwards as a client would")
	return cmd
}
