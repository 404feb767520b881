package releasing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/manifest"
	"tsmon/manifest/updater"
)

// UpdateCommand returns `tsmon update`.
func UpdateCommand(app *cli.App) *cobra.Command {
	return cli.Group("update", "Ask for updates as an installed application does",
		updateCheckCommand(app), updateDownloadCommand(app))
}

type updateFlags struct {
	endpoints      []string
	current        string
	target         string
	bundleType     string
	publicKeys     []string
	requireVersion bool
	access         accessFlags
}

func (f *updateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.endpoints, "endpoint", nil, "manifest `URL`, may hold {{target}}, {{arch}}, {{current_version}}, {{bundle_type}}; repeatable, asked in order")
	flags.StringVar(&f.current, "current", "", "installed `VERSION`")
	flags.StringVar(&f.target, "target", hostTarget(), "`OS-ARCH` of the installed application")
	flags.StringVar(&f.bundleType, "bundle-type", "", "appimage, deb, rpm, app, msi or nsis (default: unknown to the application)")
	flags.StringArrayVar(&f.publicKeys, "public-key", nil, "`KEY` that the application trusts, or its file (default trusted_keys)")
	flags.BoolVar(&f.requireVersion, "require-signed-version", false, "refuse signatures that name no version, as strict applications do")
	f.access.add(cmd)
}

// hostTarget is the platform key of this machine.
func hostTarget() string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7"}
	return runtime.GOOS + "-" + cmp.Or(arch[runtime.GOARCH], runtime.GOARCH)
}

func (f updateFlags) updater(app *cli.App) (*updater.Updater, error) {
	switch {
	case len(f.endpoints) == 0:
		return nil, cli.Usagef("--endpoint is missing")
	case f.current == "":
		return nil, cli.Usagef("--current is missing")
	}
	for _, endpoint := range f.endpoints {
		if err := checkAddress("--endpoint", endpoint); err != nil {
			return nil, err
		}
	}
	text := f.target
	if f.bundleType != "" && f.bundleType != "unknown" {
		text += "-" + f.bundleType
	}
	key, err := manifest.ParseKey(text)
	if err != nil {
		return nil, cli.Usage(err)
	}
	c, err := app.Load()
	if err != nil {
		return nil, err
	}
	if len(f.publicKeys) == 0 {
		f.publicKeys = c.TrustedKeys
	}
	u, err := f.access.client(c)
	if err != nil {
		return nil, err
	}
	u.Endpoints, u.RequireVersion = f.endpoints, f.requireVersion
	u.Client = manifest.Client{Version: f.current, Target: key.Target(), BundleType: key.Type}
	u.Keys, err = cli.Keyring(f.publicKeys)
	return u, err
}

// CheckReport is what `tsmon update check --json` prints.
type CheckReport struct {
	Available bool            `json:"available"`
	Current   string          `json:"current"`
	Version   string          `json:"version,omitempty"` // announced, also when there is no update
	Endpoint  string          `json:"endpoint"`          // whose answer counted
	Offer     *manifest.Offer `json:"offer,omitempty"`
	Attempts  []CheckAttempt  `json:"attempts"`
}

type CheckAttempt struct {
	updater.Attempt
	Error string `json:"error,omitempty"`
}

func updateCheckCommand(app *cli.App) *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "check --endpoint URL… --current V",
		Short: "Check for an update that a client could install",
		Long: `Ask the endpoints for an update as the updater does, in order and with its
fallbacks. If keys are known, the signature of an offer is checked as far as that
needs no bundle. Below public_url the configured updates token is sent. Exit code
0 whether or not there is an update.`,
		Example: `  tsmon update check --endpoint https://releases.example.com/stable/latest.json --current 1.3.0
  tsmon update check --endpoint 'https://a.example.com/{{target}}/{{arch}}/{{current_version}}' --current 1.3.0 --target darwin-aarch64 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _, err := check(cmd.Context(), app, f, true)
			return err
		},
	}
	f.add(cmd)
	return cmd
}

// check asks the endpoints, and prints the answer if show is set.
func check(ctx context.Context, app *cli.App, f updateFlags, show bool) (*updater.Updater, *manifest.Offer, error) {
	u, err := f.updater(app)
	if err != nil {
		return nil, nil, err
	}
	result, err := u.Check(ctx)
	for i, attempt := range result.Attempts {
		switch last := i == len(result.Attempts)-1; {
		case attempt.Err != nil && !last:
			app.Say("%s: %v; trying the next endpoint", attempt.URL, attempt.Err)
		case errors.Is(err, updater.ErrNoRelease) && attempt.Status != http.StatusOK:
			app.Say("%s: status %d", attempt.URL, attempt.Status)
		}
	}
	if err != nil {
		if i := slices.IndexFunc(result.Attempts, func(a updater.Attempt) bool { return errors.Is(a.Err, updater.ErrDenied) }); i >= 0 && errors.Is(err, updater.ErrNoRelease) {
			err = hintAccess(fmt.Errorf("%w: %w", err, result.Attempts[i].Err))
		}
		if show && app.JSON {
			return nil, nil, errors.Join(app.Print(reportOf(f, result), nil), err)
		}
		return nil, nil, err
	}
	if result.Offer != nil && len(u.Keys) > 0 {
		if _, err := result.Offer.Verifier(u.Keys, u.RequireVersion); err != nil {
			return nil, nil, err
		}
	}
	if !show {
		return u, result.Offer, nil
	}
	r := reportOf(f, result)
	return u, result.Offer, app.Print(r, func(w io.Writer) { printCheck(w, r) })
}

func reportOf(f updateFlags, result *updater.Result) CheckReport {
	r := CheckReport{Available: result.Offer != nil, Current: f.current, Endpoint: result.URL, Offer: result.Offer}
	if result.Response != nil {
		r.Version = result.Response.Version.String()
	}
	for _, attempt := range result.Attempts {
		row := CheckAttempt{Attempt: attempt}
		if attempt.Err != nil {
			row.Error = attempt.Err.Error()
		}
		r.Attempts = append(r.Attempts, row)
	}
	return r
}

func printCheck(w io.Writer, r CheckReport) {
	if !r.Available {
		printNone(w, r.Current)
		return
	}
	fmt.Fprintf(w, "update available: %s → %s\n%s\n", r.Current, r.Version, r.Offer.URL)
	if r.Offer.Notes != "" {
		fmt.Fprintf(w, "\n%s\n", r.Offer.Notes)
	}
}

func printNone(w io.Writer, current string) { fmt.Fprintf(w, "no update: %s is up to date\n", current) }

func updateDownloadCommand(app *cli.App) *cobra.Command {
	var f updateFlags
	var output string
	cmd := &cobra.Command{
		Use:   "download --endpoint URL… --current V --output FILE",
		Short: "Download an update and verify it as the updater does",
		Long: `Download the update that a client would be offered, and verify it as the updater
does. FILE appears only after the signature was verified.

With --json each event of the updater is one line: {"event": "Started", "data":
{"contentLength"}}, {"event": "Progress", "data": {"chunkLength", "downloaded",
"percent"}}, {"event": "Finished", "data": {}}. Without an update the only line
is {"event": "NoUpdate", "data": {}}.`,
		Example: `  tsmon update download --endpoint https://releases.example.com/stable/latest.json --current 1.3.0 --output App.zip`,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDownload(cmd.Context(), app, f, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the bundle to `FILE`")
	f.add(cmd)
	return cmd
}

func runDownload(ctx context.Context, app *cli.App, f updateFlags, output string) error {
	if output == "" {
		return cli.Usagef("--output is missing")
	}
	u, offer, err := check(ctx, app, f, false)
	if err != nil {
		return err
	}
	if len(u.Keys) == 0 {
		return cli.WithHint(cli.Usagef("no public key to verify with"), "give --public-key KEY, or set TSMON_TRUSTED_KEYS")
	}
	if offer == nil {
		if app.JSON {
			return json.NewEncoder(app.Stdout).Encode(updater.Event{Event: "NoUpdate"})
		}
		printNone(app.Stdout, f.current)
		return nil
	}
	progress := app.NewProgress("downloaded")
	if err := u.Download(ctx, offer, output, downloadEvents(app, progress, output)); err != nil {
		return hintAccess(err)
	}
	progress.Done()
	if !app.JSON {
		fmt.Fprintf(app.Stdout, "%s: version %s, verified\n", output, offer.Version)
	}
	return nil
}

// downloadEvents prints events as JSON lines on stdout, or as progress.
func downloadEvents(app *cli.App, p *cli.Progress, output string) func(updater.Event) {
	var total int64
	enc := json.NewEncoder(app.Stdout)
	return func(e updater.Event) {
		if app.JSON {
			_ = enc.Encode(e) // a closed stdout must not stop the download
			return
		}
		if e.Event == "Started" {
			total = e.Data.ContentLength
		}
		if e.Event == "Progress" {
			p.Transferred(output, e.Data.ChunkLength, total)
		}
	}
}
