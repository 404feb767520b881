// Package updating has the commands of an installed application's side: `tsmon update`, and
// `tsmon manifest`, which is about what applications read.
package updating

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"tsmon/channels/ring"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/signing"
)

// UpdateCommand returns `tsmon update`.
func UpdateCommand(app *cli.App) *cobra.Command {
	return cli.Group("update", "Ask for updates as an installed application does",
		updateCheckCommand(app), updateDownloadCommand(app))
}

type updateFlags struct {
	endpoints      []string
	current        string
	target, arch   string
	bundleType     string
	downgrades     bool
	id             string // of the installation
	publicKeys     []string
	requireVersion bool
	access         accessFlags
}

func (f *updateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.endpoints, "endpoint", nil, "manifest `URL`, may hold {{target}}, {{arch}}, {{current_version}}, {{bundle_type}}, and {{ring}} with --id; repeatable, asked in order")
	flags.StringVar(&f.current, "current", "", "installed `VERSION`")
	flags.StringVar(&f.target, "target", hostTarget(), "`OS-ARCH` of the installed application; with --arch, its {{target}}: OS, or the key that it sets with target()")
	flags.StringVar(&f.arch, "arch", "", "the application's {{arch}}: x86_64, i686, aarch64, armv7 or riscv64 (default: that of --target)")
	flags.StringVar(&f.bundleType, "bundle-type", "", "appimage, deb, rpm, app, msi or nsis (default: unknown to the application)")
	flags.StringArrayVar(&f.publicKeys, "public-key", nil, "`KEY` that the application trusts, or its file (default trusted_keys)")
	flags.BoolVar(&f.requireVersion, "require-signed-version", false, "refuse signatures that are not bound to a version, as strict applications do")
	flags.BoolVar(&f.downgrades, "allow-downgrades", false, "accept any other version as an update, as applications with allowDowngrades do")
	flags.StringVar(&f.id, "id", "", "`ID` of the installation: {{ring}} becomes its ring, and servers get the ID in the header X-Tsmon-Client")
	f.access.add(cmd)
}

// address returns an endpoint as the application gives it to the updater, with its ring.
func (f updateFlags) address(endpoint string) (string, error) {
	const part = "{{ring}}"
	if !strings.Contains(endpoint, part) {
		return endpoint, nil
	}
	if f.id == "" {
		return "", cli.WithHint(cli.Usagef("--endpoint %s needs the ID of an installation", endpoint), "give --id ID, or write the two digits of a ring instead of {{ring}}")
	}
	return strings.ReplaceAll(endpoint, part, fmt.Sprintf("%02d", ring.Of(f.id))), nil
}

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
	case !httpguts.ValidHeaderFieldValue(f.id):
		return nil, cli.Usagef("--id can't be sent in a header")
	}
	var endpoints []string
	for _, endpoint := range f.endpoints {
		address, err := f.address(endpoint)
		if err == nil {
			err = checkAddress("--endpoint", address)
		}
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, address)
	}
	client, err := f.client()
	if err != nil {
		return nil, cli.Usage(err)
	}
	c, u, err := f.access.client(app)
	if err != nil {
		return nil, err
	}
	keys := c.TrustedKeys
	if len(f.publicKeys) > 0 {
		keys = nil
	}
	for _, key := range f.publicKeys {
		keys = append(keys, config.TrustedKey{Key: key})
	}
	if f.id != "" {
		u.Header.Set("X-Tsmon-Client", f.id)
	}
	u.Endpoints, u.RequireVersion = endpoints, f.requireVersion
	u.Client = client
	u.Keys, err = cli.Keyring(keys)
	return u, err
}

// client returns the application that the flags describe.
func (f updateFlags) client() (manifest.Client, error) {
	c := manifest.Client{Version: f.current, Downgrades: f.downgrades}
	os, _, named := strings.Cut(f.target, "-")
	platform := f.target
	if f.arch != "" {
		platform = os + "-" + f.arch
		if named {
			c.Named = f.target
		}
	}
	if f.bundleType != "" && f.bundleType != "unknown" {
		platform += "-" + f.bundleType
	}
	key, err := manifest.ParseKey(platform)
	if err == nil && c.Named != "" {
		_, err = manifest.ParseKey(c.Named)
	}
	c.Target, c.BundleType = key.Target(), key.Type
	return c, err
}

// CheckReport is what `tsmon update check --json` prints.
type CheckReport struct {
	Available bool   `json:"available"`
	Current   string `json:"current"`
	Version   string `json:"version,omitempty"` // announced, also when there is no update
	// Critical is true if a critical release is ahead of the client.
	Critical bool `json:"critical,omitempty"`
	// MinimumVersion is the oldest version that may remain in use, if Current is below it.
	MinimumVersion string          `json:"minimum_version,omitempty"`
	Endpoint       string          `json:"endpoint"` // whose answer counted
	Offer          *manifest.Offer `json:"offer,omitempty"`
	Attempts       []CheckAttempt  `json:"attempts"`
}

// CheckAttempt is what one endpoint answered.
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
fallbacks. If keys are known, the signature of an offer is checked as far as that is
possible without the bundle; the name of the bundle tells whether the application could
install it. The configured updates token is sent to endpoints below public_url. The
exit code is 0 whether or not there is an update.

An endpoint with variables is the dynamic address of a server, one without is a
manifest. --target and --arch are the values of {{target}} and {{arch}}.`,
		Example: `  tsmon update check --endpoint https://releases.example.com/stable/latest.json --current 1.3.0
  tsmon update check --endpoint 'https://releases.example.com/stable/rings/{{ring}}/latest.json' --id a1b2 --current 1.3.0
  tsmon update check --endpoint 'https://a.example.com/{{target}}/{{arch}}/{{current_version}}' --current 1.3.0 --target darwin-aarch64 --json
  tsmon update check --endpoint 'https://a.example.com/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}' --current 1.3.0 --target windows --arch x86_64 --bundle-type msi`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, result, err := check(cmd.Context(), app, f)
			if result == nil || err != nil && !app.JSON {
				return err
			}
			r := reportOf(f, result)
			return errors.Join(app.Print(r, func(w io.Writer) { printCheck(w, r) }), err)
		},
	}
	f.add(cmd)
	return cmd
}

// check asks the endpoints for an update that the application could install. If there is an
// error, the result is nil unless the answers of the endpoints explain it.
func check(ctx context.Context, app *cli.App, f updateFlags) (*updater.Updater, *updater.Result, error) {
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
		return u, result, err
	}
	offer := result.Offer
	if offer == nil {
		return u, result, nil
	}
	if len(u.Keys) > 0 {
		if _, err := offer.Verifier(u.Keys, u.RequireVersion); err != nil {
			return nil, nil, err
		}
	}
	if err = u.Client.Suits(offer.Key, offer.Platform); errors.Is(err, manifest.ErrBeside) {
		app.Warn([]string{err.Error()})
		err = nil
	}
	return u, result, err
}

func reportOf(f updateFlags, result *updater.Result) CheckReport {
	r := CheckReport{Available: result.Offer != nil, Current: f.current, Version: result.Shows, Endpoint: result.URL, Offer: result.Offer}
	if current, err := manifest.ParseClientVersion(f.current); err == nil && result.Offer != nil {
		r.Critical, r.MinimumVersion = result.Response.CriticalTo(current), result.Response.MinimumTo(current)
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
		printNone(w, r)
		return
	}
	fmt.Fprintf(w, "update available: %s → %s\n%s\n", r.Current, r.Version, r.Offer.URL)
	if r.Critical {
		fmt.Fprintln(w, "critical: it should not be postponed")
	}
	if r.MinimumVersion != "" {
		fmt.Fprintf(w, "minimum version: %s\n", r.MinimumVersion)
	}
	if r.Offer.Notes != "" {
		fmt.Fprintf(w, "\n%s\n", r.Offer.Notes)
	}
}

func printNone(w io.Writer, r CheckReport) {
	current, err := manifest.ParseClientVersion(r.Current)
	shown, err2 := manifest.ParseClientVersion(r.Version)
	order := 0
	if err == nil && err2 == nil {
		order = current.Compare(shown)
	}
	switch where := channelIn(r.Endpoint); {
	case order > 0:
		fmt.Fprintf(w, "no update: %s is newer than what %s shows, %s\n", r.Current, where, r.Version)
	case order < 0: // and the server has left it out
		fmt.Fprintf(w, "no update: %s shows %s, and has no bundle of this application's type\n", where, r.Version)
	default:
		fmt.Fprintf(w, "no update: %s is up to date\n", r.Current)
	}
}

// channelIn returns the channel in the address of a manifest or of a server's answer.
func channelIn(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the endpoint"
	}
	if channel, _, ok := strings.Cut(u.Path, "/rings/"); ok {
		return path.Base(channel)
	}
	if folder, ok := strings.CutSuffix(u.Path, "/latest.json"); ok && path.Base(folder) != "/" && path.Base(folder) != "." {
		return path.Base(folder)
	}
	if _, rest, ok := strings.Cut(u.Path, "/updates/"); ok {
		channel, _, _ := strings.Cut(rest, "/")
		return channel
	}
	return "the endpoint"
}

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
	if err := checkOutput(output); err != nil {
		return err
	}
	u, result, err := check(ctx, app, f)
	if err != nil {
		return err
	}
	if len(u.Keys) == 0 {
		return cli.WithHint(cli.Usagef("no public key to verify with"), "give --public-key KEY, or set TSMON_TRUSTED_KEYS")
	}
	offer := result.Offer
	if offer == nil {
		if app.JSON {
			return json.NewEncoder(app.Stdout).Encode(updater.Event{Event: "NoUpdate"})
		}
		printNone(app.Stdout, reportOf(f, result))
		return nil
	}
	progress := app.NewProgress("downloaded")
	if err := u.Download(ctx, offer, output, downloadEvents(app, progress, output)); errors.Is(err, signing.ErrSignature) {
		return cli.WithHint(err, "the stored bundle is not the one that was signed: `tsmon channel verify CHANNEL` checks the storage, and `tsmon channel repair CHANNEL --bundle FILE` restores the original bytes")
	} else if err != nil {
		return hintAccess(err)
	}
	if app.JSON {
		return nil
	}
	return app.Write(fmt.Appendf(nil, "%s: version %s, verified\n", output, offer.Version))
}

// checkOutput refuses a file that could not be written, before anything is fetched.
func checkOutput(output string) error {
	folder := filepath.Dir(output)
	if info, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return cli.WithHint(cli.Usagef("--output %s: there is no folder %s", output, folder), "create the folder, or name a FILE elsewhere with --output")
	}
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		return cli.WithHint(cli.Usagef("--output %s is a folder", output), "name a FILE in it with --output")
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
