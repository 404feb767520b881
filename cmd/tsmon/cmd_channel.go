package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/release"
)

func (a *app) channelCommand() *cobra.Command {
	return group("channel", "Look at channels and their logs, steer rollouts",
		a.channelListCommand(), a.channelShowCommand(), a.channelLogCommand(), a.channelVerifyCommand(),
		a.channelRolloutCommand(), a.channelPauseCommand(), a.channelResumeCommand(), a.channelAdoptionCommand())
}

// channelFlag adds --channel, with completion of the configured names.
func (a *app) channelFlag(cmd *cobra.Command, channel *string) {
	cmd.Flags().StringVar(channel, "channel", "stable", "`CHANNEL` to move")
	a.completeChannel(cmd, "channel")
}

// channelState is one row of `tsmon channel list`, and with the manifest what
// `tsmon channel show` prints.
type channelState struct {
	Channel  string   `json:"channel"`
	Version  string   `json:"version"`  // that the channel shows
	Sequence uint64   `json:"sequence"` // entry of the log
	Action   string   `json:"action"`
	Targets  []string `json:"targets"`
	When     string   `json:"when"` // RFC 3339
	Who      string   `json:"who"`
	URL      string   `json:"url,omitempty"` // of the manifest, if public_url is set
	// Rollout is a newer release that only some clients get.
	Rollout *release.Share `json:"rollout,omitempty"`
}

func stateOf(e *channels.Entry, channel, publicURL string, now time.Time) channelState {
	s := channelState{Channel: channel, Version: e.Version, Sequence: e.Sequence, Action: string(e.Action), Targets: e.Targets,
		When: e.When.Format("2006-01-02T15:04:05Z07:00"), Who: e.Who}
	if e.Rollout != nil {
		s.Rollout = release.ShareOf(e.Rollout, now)
	}
	if publicURL != "" {
		s.URL = publicURL + "/" + channels.ManifestKey(channel)
	}
	return s
}

// versionText names the version that everybody gets and the one that some get.
func (s *channelState) versionText() string {
	switch {
	case s.Rollout == nil:
		return s.Version
	case s.Rollout.Paused:
		return fmt.Sprintf("%s (%s is held back)", s.Version, s.Rollout.Version)
	}
	return fmt.Sprintf("%s (%s for %d %%)", s.Version, s.Rollout.Version, s.Rollout.Percent)
}

// reader returns a publisher for commands that only read. A storage folder that
// does not exist is an error: an empty list would hide a mistyped path.
func (a *app) reader(ctx context.Context, progress *progress) (*release.Publisher, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	p, err := a.publisherFor(ctx, c, progress)
	if err != nil || strings.HasPrefix(c.Storage, "s3:") {
		return p, err
	}
	if _, err := os.Stat(c.Storage); errors.Is(err, fs.ErrNotExist) {
		return nil, &hinted{fmt.Errorf("there is nothing at %s", c.Storage), "check storage in tsmon.yaml or TSMON_STORAGE; the first `tsmon release publish` creates the folder"}
	}
	return p, nil
}

func (a *app) channelListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the channels of the store and what they show",
		Example:           "  tsmon channel list",
		Args:              exactly(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.runChannelList(cmd.Context()) },
	}
}

func (a *app) runChannelList(ctx context.Context) error {
	p, err := a.reader(ctx, a.newProgress(""))
	if err != nil {
		return err
	}
	logs, err := channels.Repository{Store: p.Store}.All(ctx)
	if err != nil {
		return err
	}
	states := []channelState{}
	rows := [][]string{{"CHANNEL", "VERSION", "ENTRY", "ACTION", "WHEN", "WHO"}}
	for _, log := range logs {
		s := stateOf(log.Head(), log.Channel, p.PublicURL, a.now())
		states = append(states, s)
		rows = append(rows, []string{s.Channel, s.versionText(), strconv.FormatUint(s.Sequence, 10), s.Action, s.When, s.Who})
	}
	return a.print(states, func() { table(a.stdout, rows) })
}

// loadLog reads the log of a channel that shows something.
func (a *app) loadLog(ctx context.Context, channel string) (*channels.Log, *release.Publisher, error) {
	p, err := a.reader(ctx, a.newProgress(""))
	if err != nil {
		return nil, nil, err
	}
	log, err := channels.Repository{Store: p.Store}.Load(ctx, channel)
	if err == nil && log.Head() == nil {
		err = &release.Refusal{Cause: release.ErrNoRelease, Text: channel + " shows nothing", Mend: "`tsmon channel list` shows the channels of the store"}
	}
	return log, p, err
}

func (a *app) channelShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show CHANNEL",
		Short:             "Show what a channel offers",
		Example:           "  tsmon channel show stable --json",
		Args:              exactly(1, "one CHANNEL"),
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			log, p, err := a.loadLog(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			s := stateOf(log.Head(), args[0], p.PublicURL, a.now())
			if err := a.warnBehind(cmd.Context(), p, log); err != nil {
				return err
			}
			return a.print(s, func() {
				fmt.Fprintf(a.stdout, "channel:  %s\nversion:  %s\nentry:    %d (%s by %s, %s)\ntargets:  %s\n",
					s.Channel, s.Version, s.Sequence, s.Action, s.Who, s.When, strings.Join(s.Targets, ", "))
				if s.Rollout != nil {
					fmt.Fprintf(a.stdout, "rollout:  %s\n", shareText(s.Rollout))
				}
				if s.URL != "" {
					fmt.Fprintf(a.stdout, "manifest: %s\n", s.URL)
				}
			})
		},
	}
}

// warnBehind warns if the manifest does not match the log, as after a publisher that
// was killed.
func (a *app) warnBehind(ctx context.Context, p *release.Publisher, log *channels.Log) error {
	shown, err := channels.Repository{Store: p.Store}.Shown(ctx, log.Channel)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	want, err := log.Head().Manifest.Encode()
	if err == nil && !bytes.Equal(shown, want) {
		a.warn([]string{"the manifest does not match the log: run the last publish, promote or rollback again"})
	}
	return err
}

// logRow is an entry of `tsmon channel log --json`, without its manifest.
type logRow struct {
	channelState
	From string `json:"from,omitempty"`
	Why  string `json:"why,omitempty"`
}

func (a *app) channelLogCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "log CHANNEL",
		Short:             "Show the history of a channel, newest last",
		Example:           "  tsmon channel log stable",
		Args:              exactly(1, "one CHANNEL"),
		ValidArgsFunction: a.channelNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runChannelLog(cmd.Context(), args[0]) },
	}
}

func (a *app) runChannelLog(ctx context.Context, channel string) error {
	log, _, err := a.loadLog(ctx, channel)
	if err != nil {
		return err
	}
	entries := []logRow{}
	rows := [][]string{{"ENTRY", "WHEN", "ACTION", "VERSION", "FROM", "WHO", "WHY"}}
	for _, e := range log.Entries {
		r := logRow{stateOf(&e, channel, "", e.When), e.From, e.Why}
		entries = append(entries, r)
		rows = append(rows, []string{strconv.FormatUint(r.Sequence, 10), r.When, r.Action, r.versionText(), r.From, r.Who, r.Why})
	}
	return a.print(entries, func() { table(a.stdout, rows) })
}

func (a *app) channelVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify CHANNEL",
		Short: "Check log, manifest, releases and bundles of a channel in the store",
		Long: `Check a channel as it lies in the store: the numbers and hashes of its log, its
manifest against the head, and every release that the log names, by size,
checksum and signature; the bundles of the head are read whole.`,
		Example:           "  tsmon channel verify stable",
		Args:              exactly(1, "one CHANNEL"),
		ValidArgsFunction: a.channelNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runChannelVerify(cmd.Context(), args[0]) },
	}
}

func (a *app) runChannelVerify(ctx context.Context, channel string) error {
	progress := a.newProgress("verified")
	p, err := a.reader(ctx, progress)
	if err != nil {
		return err
	}
	report, err := p.Library().Verify(ctx, channel)
	progress.done()
	if err != nil {
		return err
	}
	err = a.print(report, func() {
		for _, f := range report.Findings {
			fmt.Fprintf(a.stdout, "%s: %s\n", f.Object, strings.ReplaceAll(f.Problem, "\n", "\n  "))
		}
		if len(report.Findings) == 0 {
			fmt.Fprintf(a.stdout, "%s: %s, %d entries, %d releases: all is well\n", channel, report.Version, report.Entries, len(report.Releases))
		}
	})
	if err == nil && len(report.Findings) > 0 {
		err = &hinted{&unsound{report}, report.Findings[0].Mend}
	}
	return err
}

// unsound is a channel with findings, which were printed.
type unsound struct{ report *release.VerifyReport }

func (e *unsound) Error() string {
	return fmt.Sprintf("%s is not sound, problems: %d", e.report.Channel, len(e.report.Findings))
}

func (e *unsound) Unwrap() error { return &release.Refusal{Cause: e.report.Err()} }
