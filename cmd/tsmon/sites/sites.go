// Package sites holds the commands that copy channels to another site, in a file or directly:
// `tsmon release export`, `import` and `mirror`.
package sites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/release/feed"
	"tsmon/store/durable"
)

// ExportCommand returns `tsmon release export`.
func ExportCommand(app *cli.App) *cobra.Command {
	var file string
	var since []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "export CHANNEL… --output FILE [--since N]",
		Short: "Write channels to a file for a site without internet",
		Long: `Write channels to one file: their logs byte for byte, and the releases that they name,
with bundles and signatures. A site reads the file with ` + "`tsmon release import`" + `.

--since N leaves out what a site already has whose log ends with entry N (run
` + "`tsmon channel list`" + ` at the site); for several channels, --since stable=12,beta=9. The
same history always gives the same file. The file gets its name once it is complete.`,
		Example: `  tsmon release export stable --output site.tar.zst
  tsmon release export stable --since 12 --output site.tar.zst
  tsmon release export stable beta --since stable=12,beta=9 --output site.tar.zst`,
		Args: cli.Args(1, -1, "a CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExport(cmd.Context(), app, args, since, file, dryRun)
		},
	}
	cmd.Flags().StringVar(&file, "output", "", "`FILE` to write (required)")
	cmd.Flags().StringSliceVar(&since, "since", nil, "`ENTRY` that the site's log ends with, or CHANNEL=ENTRY for several channels")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be exported, write nothing")
	return cmd
}

func sinceOf(names, texts []string) (map[string]uint64, error) {
	since := map[string]uint64{}
	for _, text := range texts {
		name, number, named := strings.Cut(text, "=")
		if !named && len(names) == 1 {
			name, number = names[0], text
		}
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || name == "" {
			return nil, cli.WithHint(cli.Usagef("--since %q is not the number of an entry", text), "write --since 12, or --since stable=12,beta=9 for several channels")
		}
		if !slices.Contains(names, name) {
			return nil, cli.Usagef("--since %s: the channel %s is not exported", text, name)
		}
		since[name] = n
	}
	return since, nil
}

func runExport(ctx context.Context, app *cli.App, names, texts []string, file string, dryRun bool) error {
	since, err := sinceOf(names, texts)
	if err != nil {
		return err
	}
	if file == "" && !dryRun {
		return cli.WithHint(cli.Usagef("--output is missing"), "for example --output site.tar.zst")
	}
	if _, err := os.Lstat(file); err == nil {
		return alreadyThere(file)
	}
	_, p, err := app.LoadPublisher(ctx, "read")
	if err != nil {
		return err
	}
	x, err := feed.NewExport(ctx, p, names, since)
	if err == nil && x.Report.Changed && !dryRun {
		err = durable.CreateBy(file, 0o644, func(w io.Writer) error { return x.Write(ctx, w) })
		if errors.Is(err, fs.ErrExist) {
			err = alreadyThere(file)
		}
		x.Report.File = file
	}
	if err != nil {
		return err
	}
	x.Report.DryRun = dryRun
	return app.Print(x.Report, func(w io.Writer) { printFeed(w, &x.Report, "exported") })
}

func alreadyThere(file string) error {
	return cli.WithHint(cli.Refuse(fmt.Errorf("%s exists already", file)), "name another FILE, or move the existing one away")
}

// ImportCommand returns `tsmon release import`.
func ImportCommand(app *cli.App) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import channels from a file of release export",
		Long: `Import channels from a file of ` + "`tsmon release export`" + ` into the storage. Nothing in the
file is trusted: its entries must follow those in the storage and have the signatures of
the operators configured here, and bundles must be signed by trusted_keys. Then all
entries take effect at once, and manifests are rendered with the site's own public_url.
If the import is interrupted, the channel stays as it was; run the same command again to
complete it. Objects that are already there are not written again.

An imported channel can't be moved at the site. To be able to hold releases back, have
the applications read a channel of the site's own, and promote releases to it.`,
		Example: `  tsmon release import /media/usb/site.tar.zst --dry-run
  tsmon release import /media/usb/site.tar.zst`,
		Args: cli.Args(1, 1, "a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runImport(cmd.Context(), app, args[0], dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "verify the whole file, write nothing")
	return cmd
}

func runImport(ctx context.Context, app *cli.App, path string, dryRun bool) error {
	file, err := os.Open(path)
	if err != nil {
		return cli.Given(err)
	}
	defer file.Close()
	_, p, err := app.LoadPublisher(ctx, "read")
	if err != nil {
		return err
	}
	report, err := feed.Import(ctx, p, file, dryRun)
	if err != nil {
		return err
	}
	return app.Print(report, func(w io.Writer) { printFeed(w, report, "imported") })
}

// MirrorCommand returns `tsmon release mirror`.
func MirrorCommand(app *cli.App) *cobra.Command {
	var from string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "mirror [CHANNEL…] --from STORE",
		Short: "Copy channels from another store",
		Long: `Copy channels from another store to the storage: those named, or else all that
tsmon.yaml lists, except those that the other store lacks or that were moved here.
Everything is verified as by ` + "`tsmon release import`" + `. Only missing objects are fetched, so
the command can run every few minutes.`,
		Example: `  tsmon release mirror --from "s3://releases/desktop?endpoint=https://minio.example.com"
  tsmon release mirror stable --from /mnt/releases --dry-run`,
		Args: cli.Args(0, -1, "CHANNELs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMirror(cmd.Context(), app, args, from, dryRun)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "`STORE` to read, written like storage in tsmon.yaml (required)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "fetch and verify, write nothing")
	return cmd
}

func runMirror(ctx context.Context, app *cli.App, names []string, from string, dryRun bool) error {
	if from == "" {
		return cli.WithHint(cli.Usagef("--from is missing"), "write --from /mnt/releases or --from s3://BUCKET/PREFIX?endpoint=URL")
	}
	c, p, err := app.LoadPublisher(ctx, "fetched")
	if err != nil {
		return err
	}
	other := &config.Config{Storage: from}
	if other.StoreName() == c.StoreName() {
		return cli.WithHint(cli.Usagef("--from %s is the storage itself", from), "set --from to the store that the channels come from, and storage (TSMON_STORAGE) to the store of this site")
	}
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(from, "s3:") {
		return cli.WithHint(cli.Usagef("there is nothing at %s", from), "check the path after --from")
	}
	source, err := app.OpenStore(ctx, from)
	if err != nil {
		return err
	}
	report, err := feed.Mirror(ctx, p, source, names, dryRun)
	if err != nil {
		return err
	}
	return app.Print(report, func(w io.Writer) { printFeed(w, report, "mirrored") })
}

func printFeed(w io.Writer, r *feed.Report, verb string) {
	var bytes int64
	bundles := 0
	for _, release := range r.Releases {
		bundles += release.Bundles
		bytes += release.Bytes
	}
	if r.DryRun {
		verb = "would be " + verb
	}
	for _, c := range r.Channels {
		if c.Sequence == c.Since {
			fmt.Fprintf(w, "%s: %s, nothing new (entry %d)\n", c.Channel, c.Version, c.Sequence)
			continue
		}
		fmt.Fprintf(w, "%s: %s, %s: entries %d to %d\n", c.Channel, c.Version, verb, c.Since+1, c.Sequence)
	}
	if bundles > 0 {
		fmt.Fprintf(w, "%s of %s, %s\n", cli.Count(bundles, "bundle", "bundles"), cli.Count(len(r.Releases), "release", "releases"), cli.Size(bytes))
	}
	if r.File != "" {
		fmt.Fprintf(w, "wrote %s\n", r.File)
	}
}
