// Package guarding has the commands about installed clients: `tsmon channel adoption`, and
// `tsmon channel guard`, which shows the guard's judgment of a rollout or simulates rollouts.
package guarding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api/fleet"
	"tsmon/api/fleet/verdict"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
)

// GuardCommand returns `tsmon channel guard`.
func GuardCommand(app *cli.App) *cobra.Command {
	var simulated bool
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "guard [CHANNEL]",
		Short: "Show how the guard judges a rollout, or simulate rollouts",
		Long: `Show how the guard judges the newest release of a channel: how many clients it fails
for, how many run it and how many are waiting, compared with the previous release; how
certain that is, why the next step has to wait, and how many more failures would halt
the rollout. The command reads the records that tsmon serve writes, so it needs the
server's configuration.

With --simulate only the configuration is read. Rollouts are simulated client by
client, to show the effect of a limit before you rely on it: how many rollouts are
halted, after how many clients, and what a plain threshold would do (halt when more
than the limit of at least 50 clients fail within an hour). Applications install at
once, or with --late when they are quit, within a day. Without other flags the command
simulates the cases that the guard was designed for, which takes minutes.`,
		Example: `  tsmon channel guard stable
  tsmon channel guard --simulate --failures 2 --rate 1,4 --clients 1200 --rollouts 200
  tsmon channel guard stable --simulate --rate 5 --clients 300 --late`,
		Args: cli.Args(0, 1, "at most one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case simulated:
				return runSimulate(cmd.Context(), app, f, args)
			case len(args) == 0:
				return cli.WithHint(cli.Usagef("name one CHANNEL"), "`tsmon channel list` shows the channels of the store")
			}
			if flag := f.first(); flag != "" {
				return cli.WithHint(cli.Usagef("--%s is for simulated rollouts", flag), "add --simulate")
			}
			return runGuard(cmd.Context(), app, args[0])
		},
	}
	cmd.Flags().BoolVar(&simulated, "simulate", false, "simulate rollouts instead of showing the present one")
	f.add(cmd)
	return cmd
}

// State is what `tsmon channel guard` prints.
type State struct {
	fleet.Opinion
	Rollout *release.Share `json:"rollout,omitempty"`
	Limit   float64        `json:"limit_percent"`
}

func runGuard(ctx context.Context, app *cli.App, channel string) error {
	c, _, log, err := showing.LoadLog(ctx, app, channel)
	if err != nil {
		return err
	}
	opinion, err := app.Judge(ctx, c, log)
	if errors.Is(err, cli.ErrNoRecords) {
		return cli.WithHint(err, "set TSMON_DATA or TSMON_RECORDS as for tsmon serve")
	}
	if err != nil {
		return err
	}
	s := State{Opinion: *opinion, Limit: 100 * opinion.Verdict.Limit}
	s.Rollout = release.ShareOf(log.Head().Rollout, false)
	return app.Print(s, func(w io.Writer) { s.draw(w) })
}

func (s *State) draw(w io.Writer) {
	if s.Rollout == nil {
		fmt.Fprintf(w, "%s shows %s to everybody: no step waits, and nothing is halted\n", s.Channel, s.Version)
		drawClients(w, &s.Opinion)
		return
	}
	fmt.Fprintf(w, "%s: %s\n", s.Channel, showing.ShareText(s.Rollout))
	fmt.Fprintf(w, "%s: %s\n", s.Decision, s.Verdict.Sentence)
	if s.Why != "" && s.Why != s.Verdict.Sentence {
		fmt.Fprintln(w, s.Why)
	}
	drawClients(w, &s.Opinion)
	fmt.Fprintf(w, "\nfrom %s, %d of them with failures; a halt requires %d\n", cli.Count(s.Networks.Networks, "network", "networks"), s.Networks.Failing, s.Required)
	if s.Networks.Counted < 1 {
		fmt.Fprintf(w, "large networks count for less: %s of the clients count\n", percent(s.Networks.Counted))
	}
	if s.Sample < s.Networks.Counted {
		fmt.Fprintf(w, "%s of all clients are recorded\n", percent(s.Sample/s.Networks.Counted))
	}
	if v := s.Verdict; s.Decision != verdict.Halt {
		fmt.Fprintf(w, "known outcomes: %d; the next step requires %d\n", v.Outcomes, v.Needed)
		if v.ToHalt > 0 {
			fmt.Fprintf(w, "failures in a row that would halt it: %d\n", v.ToHalt)
		}
		if v.ToSettle > 0 {
			fmt.Fprintf(w, "more clients, failing as those did, that would settle it: %d\n", v.ToSettle)
		}
	}
}

func drawClients(w io.Writer, o *fleet.Opinion) {
	rows := [][]string{{"", o.Version}}
	if o.BeforeClients != nil {
		rows[0] = append(rows[0], o.Before)
	}
	for _, row := range []struct {
		name  string
		count func(*verdict.Sums) int64
	}{
		{"failing", func(s *verdict.Sums) int64 { return s.Failing }},
		{"waiting", func(s *verdict.Sums) int64 { return s.Waiting }},
		{"healthy", func(s *verdict.Sums) int64 { return s.Healthy }},
		{"only offered", func(s *verdict.Sums) int64 { return s.Offered }},
	} {
		cells := []string{row.name, strconv.FormatInt(row.count(&o.Clients), 10)}
		if o.BeforeClients != nil {
			cells = append(cells, strconv.FormatInt(row.count(o.BeforeClients), 10))
		}
		rows = append(rows, cells)
	}
	bounds := []string{"failing, bounds", boundsText(&o.Verdict.Failing)}
	if o.Verdict.Before != nil {
		bounds = append(bounds, boundsText(o.Verdict.Before))
	}
	rows = append(rows, bounds)
	for _, age := range o.Verdict.Ages {
		rows = append(rows, []string{fmt.Sprintf("waiting after %s", time.Duration(age.Hours*float64(time.Hour))), partText(age.Now), partText(age.Before)})
	}
	fmt.Fprintln(w)
	cli.Table(w, rows)
	drawOutcomes(w, o)
}

// drawOutcomes writes the clients by target and cohort, if there is more than one kind.
func drawOutcomes(w io.Writer, o *fleet.Opinion) {
	if len(o.Groups) < 2 {
		return
	}
	rows := [][]string{{"TARGET", "COHORT", "FAILING", "WAITING", "HEALTHY", "BY CHANCE"}}
	for _, g := range o.Groups {
		rows = append(rows, []string{cmp.Or(g.Target, "(not known)"), g.Cohort, strconv.FormatInt(g.Failing, 10), strconv.FormatInt(g.Waiting, 10), strconv.FormatInt(g.Healthy, 10), strings.TrimPrefix(verdict.Chance(g.Doubt), "of ")})
	}
	fmt.Fprintln(w)
	cli.Table(w, rows)
}

func boundsText(s *verdict.Share) string {
	return fmt.Sprintf("%s to %s", percent(s.Low), percent(s.High))
}

func partText(s verdict.Share) string {
	if s.Of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d (%s)", s.Count, s.Of, percent(float64(s.Count)/float64(s.Of)))
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
