package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
)

func (a *app) releaseListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the releases in the store and the channels that show them",
		Example:           "  tsmon release list --json",
		Args:              exactly(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.runReleaseList(cmd.Context()) },
	}
}

// listedRelease is one row of `tsmon release list`.
type listedRelease struct {
	Version  string   `json:"version"`
	Channels []string `json:"channels"` // that show it to everybody
	// Rollouts are the channels that offer it to some clients.
	Rollouts map[string]*release.Share `json:"rollouts,omitempty"`
}

func (a *app) runReleaseList(ctx context.Context) error {
	p, err := a.reader(ctx, a.newProgress(""))
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
	releases := make([]listedRelease, len(versions))
	rows := [][]string{{"VERSION", "CHANNELS"}}
	for i, v := range versions {
		listed := listedRelease{Version: v, Channels: []string{}, Rollouts: map[string]*release.Share{}}
		var texts []string
		for _, log := range logs {
			head := log.Head()
			if head.Version == v {
				listed.Channels = append(listed.Channels, log.Channel)
				texts = append(texts, log.Channel)
			}
			if head.Rollout != nil && head.Rollout.Version == v {
				share := release.ShareOf(head.Rollout, a.now())
				listed.Rollouts[log.Channel] = share
				texts = append(texts, log.Channel+" ("+percentText(share)+")")
			}
		}
		releases[i] = listed
		rows = append(rows, []string{v, strings.Join(texts, ", ")})
	}
	return a.print(releases, func() { table(a.stdout, rows) })
}

func (a *app) releaseShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show VERSION",
		Short:   "Show what a release consists of",
		Example: "  tsmon release show 1.4.0",
		Args:    exactly(1, "one VERSION"),
		ValidArgsFunction: a.completeVersions(func(ctx context.Context, p *release.Publisher) ([]string, error) {
			return p.Library().List(ctx)
		}),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runReleaseShow(cmd.Context(), args[0]) },
	}
}

func (a *app) runReleaseShow(ctx context.Context, version string) error {
	p, err := a.reader(ctx, a.newProgress(""))
	if err != nil {
		return err
	}
	record, err := p.Library().Record(ctx, version)
	if err != nil {
		return err
	}
	return a.print(record, func() {
		fmt.Fprintf(a.stdout, "version:  %s\ndate:     %s\nby:       %s\n", record.Version, record.PubDate.Format("2006-01-02 15:04:05 MST"), record.Who)
		if text := extraText(record.Extra); text != "" {
			fmt.Fprintf(a.stdout, "clients:  %s\n", text)
		}
		if record.Notes != "" {
			fmt.Fprintf(a.stdout, "notes:    %s\n", strings.ReplaceAll(record.Notes, "\n", "\n          "))
		}
		rows := [][]string{{"BUNDLE", "PLATFORMS", "BYTES", "BLAKE2B-512"}}
		for _, b := range record.Bundles {
			rows = append(rows, []string{b.Name, strings.Join(b.Keys, ", "), strconv.FormatInt(b.Size, 10), b.BLAKE2b[:min(16, len(b.BLAKE2b))] + "…"})
		}
		fmt.Fprintln(a.stdout)
		table(a.stdout, rows)
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
