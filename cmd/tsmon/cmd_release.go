package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
)

func (a *app) releaseCommand() *cobra.Command {
	return group("release", "Sign, publish, promote and roll back releases",
		a.releaseSignCommand(), a.releasePublishCommand(), a.releasePromoteCommand(),
		a.releaseRollbackCommand(), a.releaseListCommand(), a.releaseShowCommand())
}

// moveFlags are what publish, promote and rollback have in common.
type moveFlags struct {
	allowMissing []string
	allowUnbound bool
	dryRun       bool
	noProbe      bool
	reason       string
}

func (f *moveFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.allowMissing, "allow-missing", nil, "platform `KEY`s that the channel may lose, comma-separated")
	cmd.Flags().BoolVar(&f.allowUnbound, "allow-unbound", false, "accept signatures that name no version; strict applications refuse them")
	f.addDry(cmd)
}

// addDry adds what every command that moves a channel has.
func (f *moveFlags) addDry(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and who gets what, write nothing")
	cmd.Flags().BoolVar(&f.noProbe, "no-probe", false, "do not fetch the public address afterwards as a client would")
}

func (f *moveFlags) options(channel string) release.Options {
	return release.Options{Channel: channel, Why: f.reason, AllowMissing: f.allowMissing, AllowUnbound: f.allowUnbound, DryRun: f.dryRun}
}

// move runs one of the commands that move a channel and prints its report.
func (a *app) move(ctx context.Context, f moveFlags, run func(*release.Publisher) (*release.Report, error)) error {
	progress := a.newProgress("read")
	c, err := a.load()
	if err != nil {
		return err
	}
	p, err := a.publisherFor(ctx, c, progress)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if !f.noProbe {
		p.Probe = prober(c, p, f.allowUnbound).Probe
	}
	report, err := run(p)
	progress.done()
	if report != nil {
		if printErr := a.print(report, func() { a.printReport(report) }); printErr != nil {
			return printErr
		}
		for _, moved := range append([]*release.Report{report}, report.Followers...) {
			a.warn(moved.Warnings)
		}
	}
	return err
}

type publishFlags struct {
	moveFlags
	contentFlags
	shareFlags
	channel string
}

func (a *app) releasePublishCommand() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish --version V [flags] DIR|BUNDLE…",
		Short: "Upload a release and move a channel to it",
		Long: `Upload the update bundles of a version and move a channel to it.

Bundles are found in a folder or named; the names that the Tauri bundler gives
tell their target, --bundle TARGET=FILE says it explicitly. A bundle that has a
.sig beside it is verified against trusted_keys; the others are signed with the
private key. The channel moves only when everything is in the store, verified,
and every installed version was seen to be able to follow.

With --percent or --steps only a share of the clients of tsmon serve gets it at
first, as ` + "`tsmon channel rollout --help`" + ` says.

The same command again does nothing, or completes what was interrupted.`,
		Example: `  tsmon release publish --version 1.4.0 --notes-file CHANGES.md src-tauri/target/release/bundle
  tsmon release publish --version 1.5.0-beta.1 --channel beta dist/
  tsmon release publish --version 1.6.0 --steps 5,25,50,100 --every 6h dist/
  tsmon release publish --version 1.4.0 --dry-run --bundle darwin-universal=App.app.tar.gz`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runPublish(cmd.Context(), f, args) },
	}
	cmd.Flags().StringVar(&f.reason, "reason", "", "a remark for the channel's log")
	a.channelFlag(cmd, &f.channel)
	f.contentFlags.add(cmd)
	f.shareFlags.add(cmd)
	f.moveFlags.add(cmd)
	return cmd
}

func (a *app) runPublish(ctx context.Context, f publishFlags, args []string) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	o, err := a.gather(ctx, c, f.contentFlags, args)
	if err != nil {
		return err
	}
	o.Options = f.options(f.channel)
	if o.Rollout, err = f.rollout(); err != nil {
		return err
	}
	return a.move(ctx, f.moveFlags, func(p *release.Publisher) (*release.Report, error) { return p.Publish(ctx, o) })
}

func (a *app) releasePromoteCommand() *cobra.Command {
	var f moveFlags
	var share shareFlags
	var from, to string
	cmd := &cobra.Command{
		Use:   "promote [--from CHANNEL] [--to CHANNEL] [VERSION]",
		Short: "Move a channel to a release that another channel shows",
		Long: `Move a channel to the release that another channel shows, or to a VERSION that
it shows no more but that was not rolled back. Nothing is uploaded. What lies in
the store is verified, and the same gate holds as for a publish.`,
		Example: `  tsmon release promote --from beta --to stable
  tsmon release promote --from beta --to stable 1.4.0 --dry-run`,
		Args: atMost(1, "at most one VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := release.PromoteOptions{Options: f.options(to), From: from}
			var err error
			if o.Rollout, err = share.rollout(); err != nil {
				return err
			}
			if len(args) == 1 {
				o.Version = args[0]
			}
			return a.move(cmd.Context(), f, func(p *release.Publisher) (*release.Report, error) { return p.Promote(cmd.Context(), o) })
		},
	}
	cmd.Flags().StringVar(&from, "from", "beta", "`CHANNEL` that shows the release")
	cmd.Flags().StringVar(&to, "to", "stable", "`CHANNEL` that is moved")
	cmd.Flags().StringVar(&f.reason, "reason", "", "a remark for the channel's log")
	a.completeChannel(cmd, "from")
	a.completeChannel(cmd, "to")
	share.add(cmd)
	f.add(cmd)
	return cmd
}

func (a *app) releaseRollbackCommand() *cobra.Command {
	var f moveFlags
	var channel, to string
	cmd := &cobra.Command{
		Use:   "rollback --channel CHANNEL [--to VERSION] --reason TEXT",
		Short: "Point a channel at an earlier release",
		Long: `Point a channel at the release before the one it shows, or at any VERSION that
it showed. That stops the spread: clients below it get the earlier release.
Clients that have the bad release keep it, because the updater only goes
forward; reaching them takes a new build with a higher version.

The same command again, with the same reason, does nothing, and so that two
people don't go back twice, going back further takes --to. --to with a version
that was rolled back brings it back.`,
		Example: `  tsmon release rollback --channel stable --reason "crashes at start"
  tsmon release rollback --channel stable --to 1.2.0 --reason "data loss since 1.3.0" --dry-run`,
		Args: exactly(0, "no arguments; --to names the version"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(f.reason) == "" {
				return &hinted{usagef("--reason is missing"), "say why; the channel's log keeps it"}
			}
			o := release.RollbackOptions{Options: f.options(channel), To: to}
			return a.move(cmd.Context(), f, func(p *release.Publisher) (*release.Report, error) { return p.Rollback(cmd.Context(), o) })
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`VERSION` to go back to (default: the one before)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why; kept in the channel's log (required)")
	a.channelFlag(cmd, &channel)
	f.add(cmd)
	return cmd
}

// check looks at the flags' form.
func (f *moveFlags) check() error {
	if len(f.reason) > 1000 || strings.ContainsFunc(f.reason, unicode.IsControl) {
		return usagef("--reason is one line of at most 1000 bytes")
	}
	for _, key := range f.allowMissing {
		if _, err := manifest.ParseKey(key); err != nil {
			return usagef("--allow-missing: %w", err)
		}
	}
	return nil
}

// printReport writes what a move did for people.
func (a *app) printReport(r *release.Report) {
	for _, moved := range append([]*release.Report{r}, r.Followers...) {
		a.printMove(moved)
		fmt.Fprintln(a.stdout)
		a.printReach(moved)
		fmt.Fprintln(a.stdout)
	}
}

func (a *app) printMove(r *release.Report) {
	state := "moved"
	switch {
	case r.DryRun && r.Changed:
		state = "would move"
	case !r.Changed:
		state = "nothing to do"
	}
	path := r.Version
	if r.Previous != "" && r.Previous != r.Version {
		path = r.Previous + " → " + r.Version
	}
	fmt.Fprintf(a.stdout, "%s: %s, %s (entry %d, %s)\n", r.Channel, path, state, r.Sequence, r.Action)
	if r.Rollout != nil {
		fmt.Fprintf(a.stdout, "  %s\n", shareText(r.Rollout))
	}
	fmt.Fprintf(a.stdout, "  %s\n", r.URL)
	if r.Probed {
		fmt.Fprintln(a.stdout, "  fetched and verified as a client gets it")
	}
}

// printReach writes who gets what, and for a rollback whom it does not reach.
// Clients with the same lot share a row.
func (a *app) printReach(r *release.Report) {
	type lot struct{ version, gets string }
	clients := map[lot][]string{}
	var lots []lot
	ahead := false
	for _, c := range r.Reach {
		l := lot{c.Version, gets(c)}
		if clients[l] == nil {
			lots = append(lots, l)
		}
		name := c.Target
		if c.BundleType != "" {
			name += " (" + c.BundleType + ")"
		}
		clients[l] = append(clients[l], name)
		ahead = ahead || c.Outcome == "ahead"
	}
	rows := [][]string{{"INSTALLED", "GETS", "ON"}}
	for _, l := range lots {
		rows = append(rows, []string{l.version, l.gets, strings.Join(brief(clients[l]), ", ")})
	}
	if len(lots) > 0 { // a pause has nothing to replay
		table(a.stdout, rows)
	}
	if r.Action == channels.Rollback && ahead {
		fmt.Fprintf(a.stdout, "\nnot reached: clients on a version above %s keep it, the updater only goes forward;\na fixed build with a higher version reaches them\n", r.Version)
	}
	if len(r.Unbound) > 0 {
		fmt.Fprintf(a.stdout, "\nnot reached: applications that require a signed version refuse %s\n", strings.Join(r.Unbound, ", "))
	} else if r.Action == channels.Rollback {
		fmt.Fprintf(a.stdout, "\nevery signature is bound to %s: applications that require a signed version follow\n", r.Version)
	}
}

// brief leaves out a target's bundle types where the target stands for them.
func brief(clients []string) []string {
	return slices.DeleteFunc(slices.Clone(clients), func(c string) bool {
		target, _, typed := strings.Cut(c, " (")
		return typed && slices.Contains(clients, target)
	})
}

func gets(c release.Reach) string {
	switch c.Outcome {
	case "offered":
		return c.Offered + ", " + c.Bundle
	case "current":
		return "nothing, up to date"
	case "ahead":
		return "nothing, keeps " + c.Version
	case "dropped":
		return "nothing more, its platform is left out"
	}
	return "an error: " + c.Error
}

func (a *app) releaseListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the releases in the store and the channels that show them",
		Example: "  tsmon release list --json",
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runReleaseList(cmd.Context()) },
	}
}

// listedRelease is one row of `tsmon release list`.
type listedRelease struct {
	Version  string   `json:"version"`
	Channels []string `json:"channels"` // that show it
}

func (a *app) runReleaseList(ctx context.Context) error {
	p, err := a.publisher(ctx, a.newProgress(""))
	if err != nil {
		return err
	}
	versions, err := p.List(ctx)
	if err != nil {
		return err
	}
	shown, err := showing(ctx, p)
	if err != nil {
		return err
	}
	releases := make([]listedRelease, len(versions))
	rows := [][]string{{"VERSION", "CHANNELS"}}
	for i, v := range versions {
		releases[i] = listedRelease{v, append([]string{}, shown[v]...)}
		rows = append(rows, []string{v, strings.Join(shown[v], ", ")})
	}
	return a.print(releases, func() { table(a.stdout, rows) })
}

// showing maps versions to the channels that show them.
func showing(ctx context.Context, p *release.Publisher) (map[string][]string, error) {
	repository := channels.Repository{Store: p.Store}
	names, err := repository.Names(ctx)
	if err != nil {
		return nil, err
	}
	shown := map[string][]string{}
	for _, name := range names {
		log, err := repository.Load(ctx, name)
		if err != nil {
			return nil, err
		}
		if head := log.Head(); head != nil {
			shown[head.Version] = append(shown[head.Version], name)
		}
	}
	return shown, nil
}

// extraText says what applications are told beside the update.
func extraText(e manifest.Extra) string {
	var texts []string
	if e.MinimumVersion != "" {
		texts = append(texts, "at least "+e.MinimumVersion)
	}
	if e.Critical {
		texts = append(texts, "critical")
	}
	if e.Watershed {
		texts = append(texts, "older ones pass through it")
	}
	return strings.Join(texts, ", ")
}

func (a *app) releaseShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show VERSION",
		Short:   "Show what a release consists of",
		Example: "  tsmon release show 1.4.0",
		Args:    exactly(1, "one VERSION"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runReleaseShow(cmd.Context(), args[0]) },
	}
}

func (a *app) runReleaseShow(ctx context.Context, version string) error {
	p, err := a.publisher(ctx, a.newProgress(""))
	if err != nil {
		return err
	}
	record, err := p.Record(ctx, version)
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
		rows := [][]string{{"\nBUNDLE", "PLATFORMS", "BYTES", "BLAKE2B-512"}}
		for _, b := range record.Bundles {
			rows = append(rows, []string{b.Name, strings.Join(b.Keys, ", "), strconv.FormatInt(b.Size, 10), b.BLAKE2b[:min(16, len(b.BLAKE2b))] + "…"})
		}
		table(a.stdout, rows)
	})
}
