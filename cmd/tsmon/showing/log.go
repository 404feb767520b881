package showing

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/channels/mending"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
	"tsmon/store/object"
)

// LogRow is an entry in the output of `tsmon channel log --json`.
type LogRow struct {
	ChannelState
	From   string           `json:"from,omitempty"`
	Why    string           `json:"why,omitempty"`
	Origin *channels.Origin `json:"origin,omitempty"`
	// SignedBy has the operators' names from earlier entries, and unknown keys themselves.
	SignedBy []string `json:"signed_by,omitempty"`
	// Refused is why the entry does not count, for example because it is forged.
	Refused string `json:"refused,omitempty"`
}

// commit returns the first digits of the Git commit that the release was built from.
func (r *LogRow) commit() string {
	if r.Origin == nil {
		return ""
	}
	return r.Origin.Commit[:min(len(r.Origin.Commit), 12)]
}

// LogCommand returns `tsmon channel log`.
func LogCommand(app *cli.App) *cobra.Command {
	limit := 0
	var one oneEntry
	cmd := &cobra.Command{
		Use:   "log CHANNEL",
		Short: "Show the history of a channel, newest last",
		Example: `  tsmon channel log stable
  tsmon channel log stable --limit 20
  tsmon channel log stable --entry 7 --raw > entry
  tsmon channel log stable --entry 7 --signature ann > entry.sig`,
		Args: cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 && cmd.Flags().Changed("limit") {
				return cli.Usagef("--limit is below 1")
			}
			if cmd.Flags().Changed("entry") || one.raw || one.operator != "" {
				return one.run(cmd.Context(), app, args[0])
			}
			return runChannelLog(cmd.Context(), app, args[0], limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "show the newest `N` entries (default all)")
	one.add(cmd)
	return cmd
}

func runChannelLog(ctx context.Context, app *cli.App, channel string, limit int) error {
	_, p, err := Reader(ctx, app, "")
	if err != nil {
		return err
	}
	shown, broken := newestEntries(ctx, p, channel, limit)
	if shown == nil {
		return broken
	}
	entries := []LogRow{}
	rows := [][]string{{"ENTRY", "WHEN", "ACTION", "VERSION", "FROM", "COMMIT", "WHO", "SIGNED BY", "WHY"}}
	var force *channels.Operators
	if limit > 0 {
		force = p.Policies[channel].Operators // earlier entries, which may name others, aren't read
	}
	for _, e := range shown.entries {
		why := shown.refused[e.Sequence]
		if e.Operators != nil && why == "" {
			force = e.Operators
		}
		r := LogRow{stateOf(&e, channel, "", false), e.From, e.Why, e.Origin, e.SignedBy(force), why}
		action := r.Action
		if why != "" {
			action = "REFUSED " + action
		}
		if e.When.IsZero() {
			r.When = "" // the entry can't be read
		}
		entries = append(entries, r)
		rows = append(rows, []string{strconv.FormatUint(r.Sequence, 10), r.When, action, r.versionText(), r.From, r.commit(), r.Who, strings.Join(r.SignedBy, ", "), r.Why})
	}
	const commit, signedBy = 5, 7
	for _, column := range []int{signedBy, commit} { // leave out an empty column
		if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[column] != "" }) {
			for i, row := range rows {
				rows[i] = slices.Delete(row, column, column+1)
			}
		}
	}
	if err := app.Print(entries, func(w io.Writer) { cli.Table(w, rows) }); err != nil {
		return err
	}
	return broken
}

// newestEntries reads the newest entries of a log, or all of them if limit is 0. If the log
// is broken, it returns the readable part together with the error.
func newestEntries(ctx context.Context, p *release.Publisher, channel string, limit int) (_ *legible, err error) {
	found := &legible{}
	if limit > 0 {
		found.entries, err = p.Repository().Tail(ctx, channel, limit)
	} else if log, failed := p.Repository().Load(ctx, channel); failed == nil {
		found.entries = log.Entries
	} else {
		err = failed
	}
	if errors.Is(err, channels.ErrLog) {
		found, failed := legibleOf(ctx, p, channel, err)
		if failed != nil {
			return nil, failed
		}
		found.entries = found.entries[max(0, len(found.entries)-cmp.Or(limit, len(found.entries))):]
		return found, err
	}
	switch {
	case err != nil:
		return nil, err
	case len(found.entries) == 0:
		return nil, showsNothing(channel)
	}
	return found, nil
}

// legible is the readable part of a log.
type legible struct {
	entries []channels.Entry
	refused map[uint64]string // why an entry doesn't count, by its number
}

// legibleOf reads the readable part of a broken log. It returns broken if nothing can be read.
func legibleOf(ctx context.Context, p *release.Publisher, channel string, broken error) (*legible, error) {
	r := p.Repository()
	found := &legible{refused: map[uint64]string{}}
	if errors.Is(broken, fault.ErrBare) || errors.Is(broken, fault.ErrStrangers) {
		r.Trust = maps.Clone(r.Trust)
		delete(r.Trust, channel)
	}
	if log, gaps, err := r.Salvage().Examine(ctx, channel); err == nil && fault.Of(broken, channel).Blame != fault.Intruder {
		for _, gap := range gaps {
			found.refuse(channels.Entry{Sequence: gap.To}, gap.Problem)
		}
		found.entries = append(found.entries, log.Entries...)
		slices.SortFunc(found.entries, func(a, b channels.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
		return found, nil
	}
	plan, err := mending.Plan(ctx, r, channel, mending.Options{Cut: true})
	if errors.Is(err, channels.ErrLog) {
		return unverified(ctx, r, channel, broken)
	}
	if err != nil {
		return nil, err
	}
	found.entries = append(found.entries, plan.Log.Entries...)
	for _, step := range slices.Backward(plan.Steps) {
		key := step.Key
		data, _, err := object.ReadAll(ctx, p.Store, key, channels.MaxEntry)
		if err != nil && !errors.Is(err, object.ErrTooLarge) {
			return nil, err
		}
		e, _, _ := channels.Candidate(data)
		_, e.Sequence, _ = channels.SequenceIn(key)
		found.refuse(e, broken)
	}
	return found, nil
}

// unverified reads the stored entries of a log without checking signatures. It is for a log
// in which an indispensable entry is missing or changed.
func unverified(ctx context.Context, r channels.Repository, channel string, broken error) (*legible, error) {
	raw, err := r.Raw(ctx, channel, 0)
	if err != nil {
		return nil, broken
	}
	found := &legible{refused: map[uint64]string{}}
	for i, data := range raw {
		e, _, ok := channels.Candidate(data)
		if e.Sequence = uint64(i) + 1; ok && e.Sequence != fault.Of(broken, channel).Sequence {
			found.entries = append(found.entries, e)
		} else {
			found.refuse(e, broken)
		}
	}
	return found, nil
}

func (l *legible) refuse(e channels.Entry, why error) {
	l.entries, l.refused[e.Sequence] = append(l.entries, e), why.Error()
}
