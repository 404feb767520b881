package releasing

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/showing"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/release/library"
)

func releaseListCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the releases in the store and the channels that show them",
		Example: "  tsmon release list --json",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runReleaseList(cmd.Context(), app) },
	}
}

// ListedRelease is one row of `tsmon release list`.
type ListedRelease struct {
	Version string `json:"version"`
	// Date is when it was published, or something of it last staged.
	Date     time.Time `json:"date,omitzero"`
	Size     int64     `json:"size"`     // bytes in the store
	Channels []string  `json:"channels"` // that show it to everybody
	// RolledBack are the channels that were rolled back from it.
	RolledBack []string `json:"rolled_back,omitempty"`
	// Pruned is true if bundles of it were removed from the store, or are lost, and were
	// not put back.
	Pruned bool `json:"pruned,omitempty"`
	// Staged are the targets that are staged of a version that is not complete.
	Staged []string `json:"staged,omitempty"`
	// Rollouts are the channels that offer it to some clients.
	Rollouts map[string]*release.Share `json:"rollouts,omitempty"`
}

func runReleaseList(ctx context.Context, app *cli.App) error {
	_, p, err := showing.Reader(ctx, app, "")
	if err != nil {
		return err
	}
	found, err := p.Library().Survey(ctx)
	if err != nil {
		return err
	}
	releases := make([]ListedRelease, len(found))
	rows := [][]string{{"VERSION", "DATE", "SIZE", "CHANNELS"}}
	for i, s := range found {
		listed := ListedRelease{Version: s.Version.Version, Date: s.Date, Size: s.Size, Channels: s.Channels, RolledBack: s.RolledBack, Pruned: s.Pruned, Rollouts: map[string]*release.Share{}}
		for channel, rollout := range s.Rollouts {
			listed.Rollouts[channel] = release.ShareOf(rollout, p.Policies[channel].Rings)
		}
		for _, s := range s.Staged {
			listed.Staged = append(listed.Staged, s.Target)
		}
		releases[i] = listed
		rows = append(rows, listed.row())
	}
	return app.Print(releases, func(w io.Writer) { cli.Table(w, rows) })
}

func (r *ListedRelease) row() []string {
	date := "-"
	if !r.Date.IsZero() {
		date = r.Date.Format(time.DateOnly)
	}
	shown := slices.Clone(r.Channels)
	for _, channel := range slices.Sorted(maps.Keys(r.Rollouts)) {
		shown = append(shown, channel+" ("+percentText(r.Rollouts[channel])+")")
	}
	var texts []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"", shown}, {"rolled back: ", r.RolledBack}, {"staged: ", r.Staged}} {
		if len(part.names) > 0 {
			texts = append(texts, part.what+strings.Join(part.names, ", "))
		}
	}
	if r.Pruned {
		texts = append(texts, "pruned")
	}
	return []string{r.Version, date, cli.Size(r.Size), strings.Join(texts, "; ")}
}

func releaseShowCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "show VERSION",
		Short:   "Show what a release consists of, or what is staged and missing",
		Example: "  tsmon release show 1.4.0",
		Args:    cli.Args(1, 1, "one VERSION"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runReleaseShow(cmd.Context(), app, args[0]) },
	}
}

// ShownRelease is the output of `tsmon release show`: the record of a complete release, and
// what is staged of one that no channel showed.
type ShownRelease struct {
	*library.Record
	Version string            `json:"version"`
	Staged  []*library.Staged `json:"staged,omitempty"`
	// Missing are the platform keys that channels still lack, by channel.
	Missing map[string][]string `json:"missing,omitempty"`
}

func runReleaseShow(ctx context.Context, app *cli.App, version string) error {
	c, p, err := showing.Reader(ctx, app, "")
	if err != nil {
		return err
	}
	found, err := p.Inspector().Version(ctx, version, &bundle.Rules{Types: c.BundleTypes, WindowsInstaller: c.WindowsInstaller})
	if err != nil {
		return err
	}
	shown := ShownRelease{Record: found.Record, Version: version, Staged: found.Staged, Missing: found.Missing}
	return app.Print(shown, func(w io.Writer) {
		if shown.Record != nil {
			printRecord(w, shown.Record)
		}
		if len(shown.Staged) > 0 {
			fmt.Fprintf(w, "%s is staged:\n", version)
			rows := [][]string{{"TARGET", "BUNDLE", "BYTES", "BY", "WHEN"}}
			for _, s := range shown.Staged {
				for _, b := range s.Bundles {
					rows = append(rows, []string{s.Target, b.Name, strconv.FormatInt(b.Size, 10), s.Who, s.When.Format("2006-01-02 15:04:05 MST")})
				}
			}
			cli.Table(w, rows)
		}
		for _, channel := range slices.Sorted(maps.Keys(shown.Missing)) {
			fmt.Fprintf(w, "missing for %s: %s\n", channel, strings.Join(shown.Missing[channel], ", "))
		}
	})
}

func printRecord(w io.Writer, record *library.Record) {
	fmt.Fprintf(w, "version:  %s\ndate:     %s\nby:       %s\n", record.Version, record.PubDate.Format("2006-01-02 15:04:05 MST"), record.Who)
	if text := extraText(record.Extra); text != "" {
		fmt.Fprintf(w, "clients:  %s\n", text)
	}
	if record.Notes != "" {
		fmt.Fprintf(w, "notes:    %s\n", strings.ReplaceAll(record.Notes, "\n", "\n          "))
	}
	rows := [][]string{{"BUNDLE", "PLATFORMS", "DOWNLOADS", "BYTES", "BLAKE2B-512"}}
	for _, b := range record.Bundles {
		rows = append(rows, []string{b.Name, dash(b.Keys), dash(b.Downloads), strconv.FormatInt(b.Size, 10), b.BLAKE2b[:min(16, len(b.BLAKE2b))] + "…"})
	}
	fmt.Fprintln(w)
	cli.Table(w, rows)
}

// dash lists keys, or writes - for none.
func dash(keys []string) string {
	return cmp.Or(strings.Join(keys, ", "), "-")
}

// extraText describes the members of a manifest that only applications read.
func extraText(e manifest.Extra) string {
	var texts []string
	if e.MinimumVersion != "" {
		texts = append(texts, "at least "+e.MinimumVersion)
	}
	if e.Critical {
		texts = append(texts, "critical")
	}
	if e.Watershed {
		texts = append(texts, "older ones install it before a newer one")
	}
	return strings.Join(texts, ", ")
}
