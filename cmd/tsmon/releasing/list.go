package releasing

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/manifest"
	"tsmon/release"
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
	Version  string   `json:"version"`
	Channels []string `json:"channels"` // that show it to everybody
	// Rollouts are the channels that offer it to some clients.
	Rollouts map[string]*release.Share `json:"rollouts,omitempty"`
}

func runReleaseList(ctx context.Context, app *cli.App) error {
	p, err := reader(ctx, app, nil)
	if err != nil {
		return err
	}
	versions, err := p.Library().List(ctx)
	if err != nil {
		return err
	}
	logs, err := channels.Repository{Store: p.Store}.All(ctx)
	if err != nil {
		return err
	}
	releases := make([]ListedRelease, len(versions))
	rows := [][]string{{"VERSION", "CHANNELS"}}
	for i, v := range versions {
		listed := ListedRelease{Version: v, Channels: []string{}, Rollouts: map[string]*release.Share{}}
		var texts []string
		for _, log := range logs {
			head := log.Head()
			if head.Version == v {
				listed.Channels = append(listed.Channels, log.Channel)
				texts = append(texts, log.Channel)
			}
			if head.Rollout != nil && head.Rollout.Version == v {
				share := release.ShareOf(head.Rollout, app.Now())
				listed.Rollouts[log.Channel] = share
				texts = append(texts, log.Channel+" ("+percentText(share)+")")
			}
		}
		releases[i] = listed
		rows = append(rows, []string{v, strings.Join(texts, ", ")})
	}
	return app.Print(releases, func(w io.Writer) { cli.Table(w, rows) })
}

func releaseShowCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "show VERSION",
		Short:   "Show what a release consists of",
		Example: "  tsmon release show 1.4.0",
		Args:    cli.Args(1, 1, "one VERSION"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runReleaseShow(cmd.Context(), app, args[0]) },
	}
}

func runReleaseShow(ctx context.Context, app *cli.App, version string) error {
	p, err := reader(ctx, app, nil)
	if err != nil {
		return err
	}
	record, err := p.Library().Record(ctx, version)
	if err != nil {
		return err
	}
	return app.Print(record, func(w io.Writer) {
		fmt.Fprintf(w, "version:  %s\ndate:     %s\nby:       %s\n", record.Version, record.PubDate.Format("2006-01-02 15:04:05 MST"), record.Who)
		if text := extraText(record.Extra); text != "" {
			fmt.Fprintf(w, "clients:  %s\n", text)
		}
		if record.Notes != "" {
			fmt.Fprintf(w, "notes:    %s\n", strings.ReplaceAll(record.Notes, "\n", "\n          "))
		}
		rows := [][]string{{"BUNDLE", "PLATFORMS", "BYTES", "BLAKE2B-512"}}
		for _, b := range record.Bundles {
			rows = append(rows, []string{b.Name, strings.Join(b.Keys, ", "), strconv.FormatInt(b.Size, 10), b.BLAKE2b[:min(16, len(b.BLAKE2b))] + "…"})
		}
		fmt.Fprintln(w)
		cli.Table(w, rows)
	})
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
