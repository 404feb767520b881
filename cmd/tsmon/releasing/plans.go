package releasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
	"tsmon/release/approval"
	"tsmon/signing"
)

// PlanCommand returns `tsmon plan`.
func PlanCommand(app *cli.App) *cobra.Command {
	return cli.Group("plan", "Approve moves that wait for the signatures of operators",
		planListCommand(app), planShowCommand(app),
		planMakeCommand(app, false, &cobra.Command{
			Use:   "approve [HASH] [--channel CHANNEL]",
			Short: "Sign a plan, and carry it out if that was the last signature",
			Long: `Verify the bundles of a plan in the store and sign it with the key in
TSMON_OPERATOR_KEY, or in the agent. With the last signature the channel moves.
HASH may be shortened to 32 digits. Without it, on a terminal, the only plan of the
channel is shown, as by ` + "`tsmon plan show`" + `, and signed once you have said yes.`,
			Example: "  tsmon plan approve 3f9a61c07be24d5f8091a2b3c4d5e6f7\n  tsmon plan approve --channel beta",
		}), planWithdrawCommand(app),
		planMakeCommand(app, true, &cobra.Command{
			Use:   "apply [HASH] [--channel CHANNEL]",
			Short: "Carry out a plan that has all signatures, without signing it",
			Long: `Carry out a plan that has all signatures. This is only needed if the command that added
the last one was interrupted. HASH may be shortened to 32 digits. Without it, the only
plan of the channel is carried out.`,
			Example: "  tsmon plan apply 3f9a61c07be24d5f8091a2b3c4d5e6f7",
		}))
}

func planListCommand(app *cli.App) *cobra.Command {
	channel := ""
	cmd := &cobra.Command{
		Use:     "list [--channel CHANNEL]",
		Short:   "List the plans that wait for signatures, for all channels or for one",
		Example: "  tsmon plan list\n  tsmon plan list --channel beta",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, p, err := showing.Reader(cmd.Context(), app, "")
			if err != nil {
				return err
			}
			names := []string{channel}
			if channel == "" {
				names = slices.Sorted(maps.Keys(p.Policies))
			}
			all, failed := []*approval.Waiting{}, []error{}
			for _, name := range names {
				some, more, err := p.Plans().List(cmd.Context(), name)
				all, failed = append(all, some...), append(failed, err)
				if more {
					app.Warn([]string{fmt.Sprintf("only %d of the plans of %s are listed, signed ones first: `tsmon plan show HASH --channel %s` finds any of them; delete unwanted ones below plans/%s in the store", len(some), name, name, name)})
				}
			}
			rows := [][]string{{"PLAN", "CHANNEL", "ACTION", "VERSION", "BY", "SIGNED", "APPROVALS", "STATE"}}
			for _, w := range all {
				rows = append(rows, []string{w.Name(), w.Channel, string(w.Entry.Action), w.Entry.Newest(), cli.OneLine(w.Entry.Who), strings.Join(w.Signed, ","), approvals(w), planState(w)})
			}
			return cmp.Or(app.Print(all, func(w io.Writer) { cli.Table(w, rows) }), errors.Join(failed...))
		},
	}
	cmd.Flags().StringVar(&channel, "channel", "", "list only the plans of `CHANNEL` (default: all channels in tsmon.yaml)")
	return cmd
}

func approvals(w *approval.Waiting) string {
	return strconv.Itoa(w.Has) + " of " + strconv.Itoa(w.Needs)
}

func planState(w *approval.Waiting) string {
	if w.Stale != "" {
		return "out of date: " + w.Stale
	}
	return "waits until " + w.Expires.Format(time.RFC3339)
}

func planShowCommand(app *cli.App) *cobra.Command {
	channel, verbose := "", false
	cmd := &cobra.Command{
		Use:   "show [HASH] [--channel CHANNEL]",
		Short: "Show a plan, and what each client would get",
		Long: `Show a plan, and what each client would get. HASH may be shortened to digits that only
one plan of the channel begins with. Without it, the only plan that waits is shown.`,
		Example: "  tsmon plan show 3f9a61c07be24d5f8091a2b3c4d5e6f7",
		Args:    cli.Args(0, 1, "at most one HASH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, p, err := showing.Reader(cmd.Context(), app, "")
			if err != nil {
				return err
			}
			w, err := p.ShowPlan(cmd.Context(), channel, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return app.Print(w, func(out io.Writer) { printWaiting(out, w, p.Policies, verbose) })
		},
	}
	channelFlag(cmd, &channel)
	cmd.Flags().BoolVar(&verbose, "verbose", false, "list every installed version instead of grouping those that get the same")
	return cmd
}

// printWaiting writes a plan for people: its move, its missing signatures, its table.
func printWaiting(out io.Writer, w *approval.Waiting, policies map[string]release.Policy, verbose bool) {
	e := w.Entry
	fmt.Fprintf(out, "plan %s\n%s: %s %s (entry %d)\n", w.Hash, w.Channel, e.Action, e.Newest(), e.Sequence)
	fmt.Fprintf(out, "  says it is from %s, %s\n", cli.OneLine(e.Who), e.When.Format(time.RFC3339))
	if o := e.Origin; o != nil {
		fmt.Fprintf(out, "  and was made by %s\n", strings.Join(strings.Fields(o.Run+" "+o.Repository+" "+o.Commit), " "))
	}
	if e.Why != "" {
		fmt.Fprintf(out, "  reason: %s\n", cli.OneLine(e.Why))
	}
	if e.Rollout != nil {
		fmt.Fprintf(out, "  %s; the others keep %s\n", showing.ShareText(release.ShareOf(e.Rollout, false)), e.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if policies[name].Follows == w.Channel && (e.Action == channels.Publish || e.Action == channels.Promote) {
			fmt.Fprintf(out, "  %s follows %s, and gets it once everybody does, unless it has something newer\n", name, w.Channel)
		}
	}
	if e.Operators != nil {
		printAppoints(out, e.Operators, w.Log.Operators())
	}
	printLosses(out, e)
	printBrings(out, release.Introduced(e))
	fmt.Fprintf(out, "approvals: %s", approvals(w))
	if len(w.Signed) > 0 {
		fmt.Fprintf(out, ", by %s", strings.Join(w.Signed, ", "))
	}
	fmt.Fprintln(out)
	for _, q := range w.Quorums {
		fmt.Fprintf(out, "  of those %s: %d of %d; may sign: %s\n", q.Of, q.Has, q.Needs, cmp.Or(strings.Join(q.Missing, ", "), "nobody else"))
	}
	printRoot(out, w.Quorums)
	if len(w.Quorums) == 0 {
		fmt.Fprintf(out, "may sign: %s\n", cmp.Or(strings.Join(w.Missing, ", "), "nobody else"))
	}
	fmt.Fprintln(out, planState(w))
	if len(w.Reach) > 0 {
		fmt.Fprintln(out)
		printTable(out, w.Reach, policies[w.Channel].Rings, verbose)
	}
}

// printAppoints prints the operators that an entry puts into force, with their keys, because
// the author of the entry can write any names beside them. force are the operators in force so
// far.
func printAppoints(out io.Writer, o, force *channels.Operators) {
	if force == nil {
		force = &channels.Operators{}
	}
	fmt.Fprintf(out, "  from then on %d of these must sign: %s\n", o.Approvals, strings.Join(namesOf(o.Keys), ", "))
	if o.Rollbacks != o.Approvals {
		fmt.Fprintf(out, "  a rollback: %d of them\n", o.Rollbacks)
	}
	list := func(keys, now map[string]string, may string) {
		for _, name := range namesOf(keys) {
			change := ""
			switch {
			case now[name] == "":
				change = ", new"
			case now[name] != keys[name]:
				change = ", another key than now"
			}
			if key, err := signing.ParseSSHKey(keys[name]); err == nil {
				fmt.Fprintf(out, "    %s%s: %s%s\n", name, may, key.Fingerprint(), change)
			}
		}
	}
	list(o.Keys, force.Keys, "")
	list(o.Servers, force.Servers, ", pauses alone")
	for _, name := range namesOf(force.Keys) {
		if o.Keys[name] == "" {
			fmt.Fprintf(out, "    %s: no longer\n", name)
		}
	}
	if o.Follows != "" {
		fmt.Fprintf(out, "  what %d of them sign for %s moves it, too\n", o.Approvals, o.Follows)
	}
}

func printLosses(out io.Writer, e *channels.Entry) {
	if e.Accepted != nil {
		fmt.Fprintf(out, "  gives up entries that were seen, up to %s\n", e.Accepted)
	}
	for _, lost := range e.Lost {
		fmt.Fprintf(out, "  declares lost: %s\n", lost)
	}
	if len(e.Pruned) > 0 {
		fmt.Fprintf(out, "  declares lost: bundles of %s\n", strings.Join(e.Pruned, ", "))
	}
}

// printBrings prints what a signature of a release approves.
func printBrings(out io.Writer, r *channels.Release) {
	fmt.Fprintf(out, "  record of %s: %s\n", r.Version, r.Record)
	if r.Critical {
		fmt.Fprintln(out, "  critical: applications should not let people put it off")
	}
	if r.CriticalBelow != "" && r.CriticalBelow != r.Version {
		fmt.Fprintf(out, "  critical for versions below %s\n", r.CriticalBelow)
	}
	if r.MinimumVersion != "" {
		fmt.Fprintf(out, "  minimum version: %s\n", r.MinimumVersion)
	}
	if r.Watershed {
		fmt.Fprintln(out, "  watershed: older versions must install it before anything newer")
	}
	if r.Notes == "" {
		fmt.Fprintln(out, "  notes: none")
		return
	}
	fmt.Fprintln(out, "  notes:")
	for line := range strings.Lines(r.Notes) {
		fmt.Fprintf(out, "    | %s\n", strings.TrimRight(line, "\r\n"))
	}
}

func namesOf(keys map[string]string) []string { return slices.Sorted(maps.Keys(keys)) }

// planMakeCommand completes cmd, which approves a plan, or only applies it.
func planMakeCommand(app *cli.App, apply bool, cmd *cobra.Command) *cobra.Command {
	var f moveFlags
	channel := ""
	cmd.Args = cli.Args(0, 1, "at most one HASH")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
			hash := strings.Join(args, "")
			if hash == "" && !apply {
				var err error
				if hash, err = askToSign(cmd.Context(), app, p, channel); err != nil {
					return nil, err
				}
			}
			plan, err := p.Approve(cmd.Context(), channel, hash, apply)
			if err == nil && plan.Action == channels.Repair && plan.Changed {
				err = repairRest(cmd.Context(), app, p, channel)
			}
			return plan, err
		})
	}
	channelFlag(cmd, &channel)
	f.wait.Add(cmd)
	cmd.Flags().BoolVar(&f.noProbe, "no-probe", false, "skip the check that fetches the public address afterwards, as a client would")
	return cmd
}

// askToSign shows the only plan of a channel, and returns its hash after confirmation at the
// terminal.
func askToSign(ctx context.Context, app *cli.App, p *release.Publisher, channel string) (string, error) {
	if !cli.IsTerminal(app.Stdin) {
		if _, err := p.Plans().Find(ctx, channel, ""); errors.Is(err, approval.ErrNoPlan) {
			return "", err
		}
		return "", cli.WithHint(cli.Usagef("name the plan to sign"), "`tsmon plan show --channel "+channel+"` shows it with its HASH")
	}
	w, err := p.ShowPlan(ctx, channel, "")
	if err != nil {
		return "", err
	}
	printWaiting(app.Stderr, w, p.Policies, false)
	answer, err := cli.Ask(ctx, app.Stdin, app.Stderr, "\nSign this plan? [y/N] ")
	if err == nil && !slices.Contains([]string{"y", "yes"}, strings.ToLower(answer)) {
		err = cli.WithHint(cli.Refuse(errors.New("the plan was not signed")), "answer yes to sign it; `tsmon plan show "+w.Name()+" --channel "+channel+"` shows the plan again")
	}
	return w.Hash, err
}

// Withdrawn is what `tsmon plan withdraw` prints.
type Withdrawn struct {
	Channel string   `json:"channel"`
	Hash    string   `json:"hash"`
	Signed  []string `json:"signed"` // operators whose signatures went with it
	Changed bool     `json:"changed"`
	DryRun  bool     `json:"dry_run,omitempty"`
}

func planWithdrawCommand(app *cli.App) *cobra.Command {
	channel, dry := "", false
	cmd := &cobra.Command{
		Use:   "withdraw HASH [--channel CHANNEL]",
		Short: "Remove a plan and its signatures",
		Long: `Remove a plan and its signatures, whether it waits or is out of date. Anybody who may
write to the store can do that; no operator's key is needed. HASH may be shortened to
digits that only one plan of the channel begins with.`,
		Example: "  tsmon plan withdraw 3f9a61c07be24d5f8091a2b3c4d5e6f7\n  tsmon plan withdraw 3f9a61c07be24d5f8091a2b3c4d5e6f7 --channel beta --dry-run",
		Args:    cli.Args(1, 1, "one HASH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, p, err := showing.Reader(cmd.Context(), app, "")
			if err != nil {
				return err
			}
			w, err := p.Plans().Withdraw(cmd.Context(), channel, args[0], dry)
			if err != nil {
				return err
			}
			result := Withdrawn{Channel: channel, Hash: w.Hash, Signed: w.Signed, Changed: !dry, DryRun: dry}
			return app.Print(result, func(out io.Writer) {
				fmt.Fprintf(out, "plan %s of %s: %s %s (entry %d), %s\n", w.Name(), channel, w.Entry.Action, w.Entry.Newest(), w.Entry.Sequence, cli.Verb(dry, "removed", "would be removed"))
			})
		},
	}
	channelFlag(cmd, &channel)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be removed, write nothing")
	return cmd
}
