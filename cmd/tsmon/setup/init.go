// Package setup holds the commands of the first five minutes: `tsmon init`, `tsmon
// doctor` and `tsmon config check`.
package setup

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/scaffold"
)

// InitCommand returns `tsmon init`.
func InitCommand(app *cli.App) *cobra.Command {
	var o scaffold.Options
	cmd := &cobra.Command{
		Use:   "init --storage S --public-url URL [--ci github|gitlab]",
		Short: "Write tsmon.yaml and a CI workflow for a Tauri project",
		Long: `Write tsmon.yaml for a Tauri 2 project, and with --ci the workflow that builds a
version tag on each platform and publishes it once all bundles are there.

The Tauri 2 project is looked for from the current folder, as the Tauri CLI does.
Its updater key becomes the trusted key, and its bundle targets decide what is built
and required. Settings that would keep clients from their updates (endpoints that lead
elsewhere, no updater artifacts) are listed with the line to add.

On a terminal init asks for what is missing; --yes takes the defaults instead.
Releases go to the channel that the application's endpoint names (stable, unless
tsmon.yaml names another).

An existing file is never replaced without --force. An existing tsmon.yaml is used as
it is, even with --force: --ci github --force rewrites only the workflow. If --storage
or --public-url differs from tsmon.yaml, only these two settings change in it; remove
the file to have all of it written again.`,
		Example: `  tsmon init --storage 's3://releases/desktop?endpoint=https://minio.example.com' --public-url https://releases.example.com/desktop --ci github
  tsmon init --storage ./releases --public-url https://updates.example.com/updates --targets windows-x86_64,linux-x86_64 --dry-run
  tsmon init --storage ./releases --public-url https://updates.example.com/updates --yes`,
		Args: cli.Args(0, 0, "no arguments; --tauri-conf names the project"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := scaffold.Init(cmd.Context(), app, o)
			if err != nil {
				return err
			}
			app.Warn(report.Warnings)
			return app.Print(report, func(w io.Writer) { printInit(w, report) })
		},
	}
	cmd.Flags().StringVar(&o.TauriConf, "tauri-conf", "", "Tauri configuration `FILE`, or its folder (default: looked for as the Tauri CLI does)")
	cmd.Flags().StringVar(&o.Storage, "storage", "", "s3://BUCKET/PREFIX?endpoint=URL, or a `DIRECTORY`")
	cmd.Flags().StringVar(&o.PublicURL, "public-url", "", "`URL` where clients find the root of the storage")
	cmd.Flags().StringVar(&o.CI, "ci", "", "write a workflow for `github` or gitlab")
	cmd.Flags().StringSliceVar(&o.Targets, "targets", nil, "`TARGET`s to build and to require, comma-separated (default: none is required)")
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "ask nothing, take the defaults; replace no file")
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace existing files")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "print the files, write nothing")
	return cmd
}

func printInit(w io.Writer, r *scaffold.Report) {
	fmt.Fprintf(w, "%s: %s\n", r.Project, strings.Join(strings.Fields(r.Name+" "+r.Version+" "+r.Identifier), " "))
	fmt.Fprintf(w, "trusted key: %s\n", strings.Join(r.KeyIDs, ", "))
	if len(r.Targets) > 0 {
		fmt.Fprintf(w, "required targets: %s (--targets names others)\n", strings.Join(r.Targets, ", "))
	}
	verbs := map[string]string{scaffold.Create: "wrote", scaffold.Replace: "replaced", scaffold.Keep: "kept"}
	for _, f := range r.Files {
		if r.DryRun && f.Content != "" {
			fmt.Fprintf(w, "\n--- %s (%s)\n%s", f.Path, f.Action, f.Content)
			continue
		}
		fmt.Fprintf(w, "%s %s\n", verbs[f.Action], f.Path)
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w, "\nBefore clients can update:")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "- %s, %s: %s\n", f.File, f.Member, cli.OneLine(f.Problem))
		if f.Write != "" {
			fmt.Fprintf(w, "  write: %s\n", f.Write)
		}
	}
	fmt.Fprintln(w, "\nNext:")
	for _, step := range r.Next {
		fmt.Fprintf(w, "- %s\n", step)
	}
}
