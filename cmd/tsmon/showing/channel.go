// Package showing has the commands that show what channels offer, and their history.
package showing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// ChannelState is one row of `tsmon channel list`, and with the manifest what
// `tsmon channel show` prints.
type ChannelState struct {
	Channel  string   `json:"channel"`
	Version  string   `json:"version"`  // that the channel shows
	Sequence uint64   `json:"sequence"` // entry of the log
	Action   string   `json:"action"`
	Targets  []string `json:"targets"`
	When     string   `json:"when"` // RFC 3339
	Who      string   `json:"who"`
	URL      string   `json:"url,omitempty"` // of the manifest, if public_url is set
	// Rings is true if the channel keeps rings.
	Rings bool `json:"rings,omitempty"`
	// Rollout is a newer release that only some clients get.
	Rollout *release.Share `json:"rollout,omitempty"`
}

func stateOf(e *channels.Entry, channel, publicURL string, rings bool) ChannelState {
	s := ChannelState{Channel: channel, Rings: rings, Version: e.Version, Sequence: e.Sequence, Action: string(e.Action), Targets: e.Targets,
		When: e.When.Format(time.RFC3339), Who: e.Who, Rollout: release.ShareOf(e.Rollout, rings)}
	if publicURL != "" {
		s.URL = publicURL + "/" + channels.ManifestKey(channel)
	}
	return s
}

// versionText names the version that everybody gets and the one that some get.
func (s *ChannelState) versionText() string {
	switch {
	case s.Rollout == nil:
		return s.Version
	case s.Rollout.Paused:
		return fmt.Sprintf("%s (%s is held back)", s.Version, s.Rollout.Version)
	}
	return fmt.Sprintf("%s (%s for %d %%)", s.Version, s.Rollout.Version, s.Rollout.Percent)
}

// Reader is App.LoadPublisher for commands that only read. A storage folder that
// does not exist is an error: an empty list would hide a mistyped path.
func Reader(ctx context.Context, app *cli.App, verb string) (*config.Config, *release.Publisher, error) {
	c, p, err := app.LoadPublisher(ctx, verb)
	if err != nil || strings.HasPrefix(c.Storage, "s3:") {
		return c, p, err
	}
	if _, err := os.Stat(c.Storage); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, cli.WithHint(fmt.Errorf("there is nothing at %s", c.Storage), "check storage in tsmon.yaml or TSMON_STORAGE; if a tsmon.yaml has it, run this in its folder, or name it with --config FILE; the first `tsmon release publish` creates the folder")
	}
	return c, p, nil
}

// ListCommand returns `tsmon channel list`.
func ListCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the channels of the store and what they show",
		Example: "  tsmon channel list",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runChannelList(cmd.Context(), app) },
	}
}

func runChannelList(ctx context.Context, app *cli.App) error {
	_, p, err := Reader(ctx, app, "")
	if err != nil {
		return err
	}
	logs, failed := p.Repository().All(ctx)
	if failed != nil && len(logs) == 0 {
		return failed
	}
	states := []ChannelState{}
	rows := [][]string{{"CHANNEL", "VERSION", "ENTRY", "ACTION", "WHEN", "WHO"}}
	for _, log := range logs {
		s := stateOf(log.Head(), log.Channel, p.PublicURL, p.Policies[log.Channel].Rings)
		states = append(states, s)
		rows = append(rows, []string{s.Channel, s.versionText(), strconv.FormatUint(s.Sequence, 10), s.Action, s.When, s.Who})
	}
	return errors.Join(app.Print(states, func(w io.Writer) { cli.Table(w, rows) }), failed)
}

// LoadLog reads the configuration and the log of a channel that shows something. If only the log
// can't be read, it returns the others with the error.
func LoadLog(ctx context.Context, app *cli.App, channel string) (*config.Config, *release.Publisher, *channels.Log, error) {
	c, p, err := Reader(ctx, app, "")
	if err != nil {
		return nil, nil, nil, err
	}
	log, err := p.Repository().Load(ctx, channel)
	if err == nil && log.Head() == nil {
		err = showsNothing(channel)
	}
	return c, p, log, err
}

func showsNothing(channel string) error {
	return &release.Refusal{Cause: library.ErrNoRelease, Text: channel + " shows nothing", Mend: "`tsmon channel list` shows the channels of the store"}
}

// ShowCommand returns `tsmon channel show`.
func ShowCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "show CHANNEL",
		Short:   "Show what a channel offers",
		Example: "  tsmon channel show stable --json",
		Args:    cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, p, log, err := LoadLog(cmd.Context(), app, args[0])
			if err != nil {
				return err
			}
			s := stateOf(log.Head(), args[0], p.PublicURL, p.Policies[args[0]].Rings)
			if err := warnBehind(cmd.Context(), app, p, log); err != nil {
				return err
			}
			return app.Print(s, func(w io.Writer) {
				fmt.Fprintf(w, "channel:  %s\nversion:  %s\nentry:    %d (%s by %s, %s)\ntargets:  %s\n",
					s.Channel, s.Version, s.Sequence, s.Action, s.Who, s.When, strings.Join(s.Targets, ", "))
				if s.Rollout != nil {
					fmt.Fprintf(w, "rollout:  %s\n", ShareText(s.Rollout))
				}
				if s.Rings {
					fmt.Fprintf(w, "rings:    %s\n", ringsText(s.Rollout))
				}
				if s.URL != "" {
					fmt.Fprintf(w, "manifest: %s\n", s.URL)
				}
			})
		},
	}
}

func ringsText(s *release.Share) string {
	if s == nil || len(s.Rings) == 0 {
		return "all 100 show what the channel shows"
	}
	return fmt.Sprintf("%d of 100 show %s", len(s.Rings), s.Version)
}

// warnBehind warns if a manifest does not match the log, as after a publisher that
// was killed.
func warnBehind(ctx context.Context, app *cli.App, p *release.Publisher, log *channels.Log) error {
	behind, err := p.Keeper().Behind(ctx, log)
	if len(behind) > 0 {
		app.Warn([]string{fmt.Sprintf("manifests that don't match the log: %d (%s); `tsmon channel repair %s` brings them up to date", len(behind), behind[0], log.Channel)})
	}
	return err
}

// ShareText describes a rollout for people.
func ShareText(s *release.Share) string {
	if s.Paused {
		return s.Version + " is held back"
	}
	text := fmt.Sprintf("%s for %d %% of the clients", s.Version, s.Percent)
	if len(s.Cohorts) > 0 {
		text += " and " + strings.Join(s.Cohorts, ", ")
	}
	if len(s.Steps) > 1 {
		texts := make([]string, len(s.Steps))
		for i, percent := range s.Steps {
			texts[i] = strconv.Itoa(percent)
		}
		text += fmt.Sprintf(" (%s, %s each", strings.Join(texts, ", "), short(time.Duration(s.Every)))
		if !s.Due.IsZero() {
			text += ", the next from " + s.Due.Format(time.RFC3339)
		}
		text += ")"
	}
	return text
}

// short writes a duration as people do: 6h, not 6h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
