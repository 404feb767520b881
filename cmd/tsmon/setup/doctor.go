package setup

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/doctor"
	"tsmon/cmd/tsmon/serving"
)

// errUnhealthy ends `tsmon doctor` with exit code 1.
var errUnhealthy = errors.New("there are errors")

// DoctorCommand returns `tsmon doctor`.
func DoctorCommand(app *cli.App) *cobra.Command {
	var tauriConf string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that a release depends on, and say how to fix problems",
		Long: `Check concurrently:
  configuration   the same as tsmon config check
  storage         it is reachable and writable, honours conditional writes, lists
                  and returns what was written; its clock is right; a bucket keeps
                  versions of the log
  channels        each manifest matches the channel's log; the log is intact,
                  contains every entry that servers have seen, and is signed where
                  operators are configured; bundles on offer are as published
  public address  serves what is in the storage, lets no cache keep it too long,
                  has a valid certificate, serves ranges of bundles and no log
  keys            the trusted keys, the application's key and the private key in
                  the environment match; no password is asked for
  application     the Tauri project builds update bundles and asks the channels
  server          the back ends of tsmon serve and a running server respond

Each finding is ok, a warning or an error; warnings and errors say how to fix them.
One object, staged/doctor/check.json, is written to the storage and stays there.

The exit code is 1 if there is an error. Warnings do not count.`,
		Example: `  tsmon doctor
  tsmon doctor --json | jq '.findings[] | select(.level == "error")'
  tsmon doctor --tauri-conf ../app/src-tauri/tauri.conf.json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			examined, done := examination(app)
			r := doctor.Run(cmd.Context(), doctor.Options{App: app, TauriConf: tauriConf, CheckServer: serving.CheckServer, Examined: examined})
			done()
			err := app.Print(r, func(w io.Writer) {
				for _, f := range r.Findings {
					printFinding(w, f)
				}
				fmt.Fprintf(w, "\nerrors: %d, warnings: %d\n", r.Errors, r.Warnings)
			})
			if err != nil {
				return err
			}
			if r.Errors > 0 {
				return cli.Printed(errUnhealthy)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&tauriConf, "tauri-conf", "", "Tauri configuration `FILE`, or its folder (default: looked for as the Tauri CLI does)")
	return cmd
}

// examination shows on a terminal how many areas are examined.
func examination(app *cli.App) (examined func(area string), done func()) {
	if app.Quiet || !cli.IsTerminal(app.Stderr) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(len(doctor.Areas()), progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription("examining"), progressbar.OptionClearOnFinish())
	// Only the drawing can fail.
	return func(area string) { bar.Describe("examined " + area); _ = bar.Add(1) }, func() { _ = bar.Finish() }
}

func printFinding(w io.Writer, f doctor.Finding) {
	fmt.Fprintf(w, "%-7s  %s: %s\n", f.Level, f.Area, cli.OneLine(f.What))
	if f.Level == doctor.OK {
		return
	}
	if f.Where != "" {
		fmt.Fprintf(w, "         where: %s\n", f.Where)
	}
	if f.Mend != "" {
		fmt.Fprintf(w, "         mend:  %s\n", cli.OneLine(f.Mend))
	}
}

// ConfigCommand returns `tsmon config`.
func ConfigCommand(app *cli.App) *cobra.Command {
	return cli.Group("config", "Check the configuration", configCheckCommand(app))
}

func configCheckCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, and print the values in force and their sources",
		Long: `Read the configuration and print every mistake in it, with its line or variable and
how to fix it: unknown keys, values of the wrong type, names of channels and targets,
guards, keys that can't be read or are not public, addresses.

Then print each value in force, and whether it comes from the file, the environment or
a default. Secrets are masked, keys are shown by their ids. No request is sent;
` + "`tsmon doctor`" + ` checks the back ends.

The exit code is 2 if there is a mistake.`,
		Example: `  tsmon config check
  tsmon config check --config deploy/tsmon.yaml --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			inspection := app.Inspect(cmd.Context())
			checked := doctor.CheckConfiguration(inspection, serving.CheckServer)
			if err := app.Print(checked, func(w io.Writer) { printChecked(w, checked) }); err != nil {
				return err
			}
			if !checked.Valid {
				return cli.Printed(cli.Usage(inspection.Mistakes))
			}
			return nil
		},
	}
}

func printChecked(w io.Writer, c doctor.Checked) {
	for _, problem := range c.Problems {
		printFinding(w, problem)
	}
	if len(c.Problems) > 0 {
		fmt.Fprintln(w)
	}
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	for _, s := range c.Settings {
		from := s.Source
		if s.Where != "" {
			from += " " + s.Where
		}
		rows = append(rows, []string{s.Name, s.Value, from})
	}
	cli.Table(w, rows)
}
