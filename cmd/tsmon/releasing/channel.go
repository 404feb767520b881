package releasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
	"tsmon/release/feed"
	"tsmon/release/upkeep"
)

// ChannelCommand returns `tsmon channel`.
func ChannelCommand(app *cli.App) *cobra.Command {
	return cli.Group("channel", "Look at channels and their logs, steer rollouts",
		showing.ListCommand(app), showing.ShowCommand(app), showing.LogCommand(app), channelVerifyCommand(app),
		channelRepairCommand(app), channelAppointCommand(app), channelRolloutCommand(app), channelAdvanceCommand(app), channelPauseCommand(app), channelResumeCommand(app))
}

// channelFlag adds --channel, with completion of the configured names.
func channelFlag(cmd *cobra.Command, channel *string) {
	cmd.Flags().StringVar(channel, "channel", "stable", "`CHANNEL` to move")
}

type verifyFlags struct {
	moveFlags
	from   channels.Position
	accept bool
	file   string
}

func channelVerifyCommand(app *cli.App) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify CHANNEL",
		Short: "Check log, manifest, releases and bundles of a channel in the store",
		Long: `Check a channel in the store: the numbers and hashes of its log, its manifest against
the newest entry, and every release that the log names by size, checksum and signature.
The bundles of the newest entry are read completely.

The command prints where the log ends, as SEQUENCE:HASH. Pass that to --from later to
prove that the log was only extended since, neither shortened nor rewritten. Servers
make the same comparison with their records, and raise an alarm that names the
SEQUENCE:HASH they have seen. Without --from, the log is compared with those records if
server.records in tsmon.yaml leads to them.

After a restore from a backup the log lacks entries that were seen. --accept gives them
up: up to the entry that --from names, or without --from up to the newest one in those
records. With operators this takes a log entry, which they must approve; without, it is
written to the records of the servers, which the command must be able to reach.

A log is also at fault if an entry is dated later than the store's own time. --accept
then lets the log continue from now with that entry's release, on this channel only.

--file verifies a file of ` + "`tsmon release export`" + `, complete and offline, with the keys and
operators of tsmon.yaml.

For a channel with rings the command also fetches their manifests from the public address,
and warns if they are not served there. ` + "`tsmon doctor`" + ` checks the rest of that address.`,
		Example: `  tsmon channel verify stable
  tsmon channel verify stable --accept --dry-run
  tsmon channel verify stable --file site.tar.zst
  tsmon channel verify stable --from 42:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runChannelVerify(cmd.Context(), app, args[0], f)
		},
	}
	cmd.Flags().BoolVar(&f.noProbe, "no-probe", false, "skip the check of the public address")
	cmd.Flags().Func("from", "`SEQUENCE:HASH` of an entry that the log must still contain", func(text string) (err error) {
		if f.from = (channels.Position{}); text == "" {
			return nil
		}
		if f.from, err = channels.ParsePosition(text); err != nil {
			err = cli.WithHint(err, "`tsmon channel verify CHANNEL` prints where a log ends; a server's alarm names what it has seen")
		}
		return err
	})
	cmd.Flags().BoolVar(&f.accept, "accept", false, "give up entries that were seen and are missing from the log, as after a restore")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --accept: print what would be given up, write nothing")
	f.wait.Add(cmd)
	cmd.Flags().StringVar(&f.file, "file", "", "verify this `FILE` of release export, without a store")
	return cmd
}

// warnUnserved warns if manifests of rings are not served at the public address.
func warnUnserved(ctx context.Context, app *cli.App, c *config.Config, p *release.Publisher, channel string) error {
	if !p.Policies[channel].Rings || p.PublicURL == "" {
		return nil
	}
	SetProbe(c, p)
	err := p.Inspector().Seen(ctx, channel)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		text := err.Error()
		if mend := cli.HintFor(err); mend != "" {
			text += "; " + mend
		}
		app.Warn([]string{text})
	}
	return nil
}

func runChannelVerify(ctx context.Context, app *cli.App, channel string, f verifyFlags) error {
	if (f.dryRun || f.wait.Duration != 0) && !f.accept {
		return cli.Usagef("--dry-run and --wait go with --accept: verify writes nothing")
	}
	if f.file != "" && f.accept {
		return cli.Usagef("--accept is about a store, not a --file")
	}
	if f.accept {
		return runAccept(ctx, app, channel, f.from, f.moveFlags)
	}
	if f.file != "" {
		return verifyFile(ctx, app, channel, f.file, f.from)
	}
	c, p, err := showing.Reader(ctx, app, "verified")
	if err != nil {
		return err
	}
	var seen channels.Position
	if f.from.Sequence == 0 {
		if seen, err = cli.Seen(ctx, c, channel); err != nil {
			app.Warn([]string{fmt.Sprintf("can't tell what servers have seen of %s, so a shortened log would not be noticed: %v", channel, err)})
		}
	}
	report, err := p.Keeper().VerifyFrom(ctx, channel, cmp.Or(f.from, seen))
	if err != nil {
		return err
	}
	if report.End.Sequence > 0 {
		report.Seen = seen
	}
	if err = printVerified(app, report); err == nil && !f.noProbe {
		err = warnUnserved(ctx, app, c, p, channel)
	}
	return err
}

// verifyFile verifies an export, using an empty store instead of the configured one.
func verifyFile(ctx context.Context, app *cli.App, channel, path string, from channels.Position) (err error) {
	loaded, err := app.Load()
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return cli.Given(err)
	}
	defer file.Close()
	nowhere, err := os.MkdirTemp("", "tsmon-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(nowhere)) }()
	c := *loaded
	c.Storage, c.PublicURL = nowhere, cmp.Or(c.PublicURL, "https://offline.invalid")
	p, err := app.Publisher(ctx, &c, "verified")
	if err != nil {
		return err
	}
	report, err := feed.Check(ctx, p, file, channel, from)
	if err != nil {
		return err
	}
	return printVerified(app, report)
}

// printVerified prints a report and returns an error if it has findings.
func printVerified(app *cli.App, report *upkeep.VerifyReport) error {
	channel := report.Channel
	err := app.Print(report, func(w io.Writer) {
		printFindings(w, report.Findings)
		if len(report.Findings) == 0 {
			fmt.Fprintf(w, "%s: %s, %s, %s: all is well\n  the log ends at %s\n", channel, report.Version, cli.Count(report.Entries, "entry", "entries"), cli.Count(len(report.Releases), "release", "releases"), report.End)
			if report.Seen.Sequence > 0 {
				fmt.Fprintf(w, "  it continues from %s, which servers have seen\n", report.Seen)
			}
		}
	})
	return cmp.Or(err, unsound(channel, report.Findings, "is not sound"))
}

func printFindings(w io.Writer, findings upkeep.Findings) {
	for _, f := range findings {
		fmt.Fprintf(w, "%s: %s\n", f.Object, strings.ReplaceAll(f.Problem, "\n", "\n  "))
	}
}

// unsound returns an error if there are findings, which are printed already.
func unsound(channel string, findings upkeep.Findings, text string) error {
	if len(findings) == 0 {
		return nil
	}
	refusal := &release.Refusal{Cause: findings.Err()}
	return cli.WithHint(cli.Reword(refusal, "%s %s, problems: %d", channel, text, len(findings)), findings[0].Mend)
}
