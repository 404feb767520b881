package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/manifest/updater"
)

func (a *app) updateCommand() *cobra.Command {
	return group("update", "Ask for updates as an installed application does",
		a.updateCheckCommand(), a.updateDownloadCommand())
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
	flags.StringVar(&f.bundleType, "bundle-type", "", "appimage, deb, rpm, app, msi or nsis (default: the application does not tell)")
	flags.StringArrayVar(&f.publicKeys, "public-key", nil, "`KEY` that the application trusts, itself or a file (default trusted_keys)")
	flags.BoolVar(&f.requireVersion, "require-signed-version", false, "refuse signatures that name no version, as strict applications do")
	f.access.add(cmd)
}

// accessFlags are what requests for manifests and bundles send besides the
// updater's own headers.
type accessFlags struct{ headers []string }

func (f *accessFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "header that the application sends, as `NAME: VALUE`, such as Authorization or X-Tsmon-Client; repeatable")
}

// header parses the flags. An error does not repeat a value, which may be secret.
func (f accessFlags) header() (http.Header, error) {
	header := http.Header{}
	for _, line := range f.headers {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, &hinted{usagef("--header is not like NAME: VALUE"), "write it like --header 'X-Tsmon-Client: a1b2'"}
		}
		header.Add(name, value)
	}
	return header, nil
}

// updatesToken is the configured token, for addresses below the configured
// public_url.
func updatesToken(c *config.Config) updater.Token {
	return updater.Token{Secret: string(c.Server.Updates.Token), Below: c.PublicURL}
}

// hintAccess adds the remedy to an error that a missing token caused.
func hintAccess(err error) error {
	if errors.Is(err, updater.ErrDenied) {
		return &hinted{err, "give --header 'Authorization: Bearer TOKEN', or for addresses below public_url set TSMON_UPDATES_TOKEN"}
	}
	return err
}

// hostTarget is the platform key of this machine.
func hostTarget() string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7"}
	return runtime.GOOS + "-" + cmp.Or(arch[runtime.GOARCH], runtime.GOARCH)
}

func (a *app) updater(f updateFlags) (*updater.Updater, error) {
	switch {
	case len(f.endpoints) == 0:
		return nil, usagef("--endpoint is missing")
	case f.current == "":
		return nil, usagef("--current is missing")
	}
	for _, endpoint := range f.endpoints {
		if u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(endpoint)); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usagef("--endpoint %s is not an absolute http(s) address", endpoint)
		}
	}
	header, err := f.access.header()
	if err != nil {
		return nil, err
	}
	text := f.target
	if f.bundleType != "" && f.bundleType != "unknown" {
		text += "-" + f.bundleType
	}
	key, err := manifest.ParseKey(text)
	if err != nil {
		return nil, &usageError{err}
	}
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	if len(f.publicKeys) == 0 {
		f.publicKeys = c.TrustedKeys
	}
	keys, err := keyring(f.publicKeys)
	if err != nil {
		return nil, err
	}
	return &updater.Updater{Endpoints: f.endpoints, Keys: keys, RequireVersion: f.requireVersion, HTTP: httpClient(), Header: header, Token: updatesToken(c),
		Client: manifest.Client{Version: f.current, Target: key.Target(), BundleType: key.Type}}, nil
}

// checkReport is what `tsmon update check --json` prints.
type checkReport struct {
	Available bool             `json:"available"`
	Current   string           `json:"current"`
	Version   string           `json:"version,omitempty"` // announced, also when there is no update
	Endpoint  string           `json:"endpoint"`          // that decided
	Offer     *manifest.Offer  `json:"offer,omitempty"`
	Attempts  []attemptOfCheck `json:"attempts"`
}

type attemptOfCheck struct {
	updater.Attempt
	Error string `json:"error,omitempty"`
}

func (a *app) updateCheckCommand() *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "check --endpoint URL… --current V",
		Short: "Ask whether there is an update, and whether a client could take it",
		Long: `Ask endpoints for an update as the updater does: in order, falling back as it
falls back. The signature of an offer is judged as far as that is possible
without the bundle, where keys are known. Exit code 0 whether or not there is an
update.`,
		Example: `  tsmon update check --endpoint https://releases.example.com/stable/latest.json --current 1.3.0
  tsmon update check --endpoint 'https://a.example.com/{{target}}/{{arch}}/{{current_version}}' --current 1.3.0 --target darwin-aarch64 --json`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _, err := a.check(cmd.Context(), f, true)
			return err
		},
	}
	f.add(cmd)
	return cmd
}

// check asks and prints the answer, if show is set.
func (a *app) check(ctx context.Context, f updateFlags, show bool) (*updater.Updater, *manifest.Offer, error) {
	u, err := a.updater(f)
	if err != nil {
		return nil, nil, err
	}
	result, err := u.Check(ctx)
	for i, attempt := range result.Attempts {
		switch last := i == len(result.Attempts)-1; {
		case attempt.Err != nil && !last:
			a.say("%s: %v; asked the next", attempt.URL, attempt.Err)
		case errors.Is(err, updater.ErrNoRelease) && attempt.Status != http.StatusOK:
			a.say("%s: status %d", attempt.URL, attempt.Status)
		}
	}
	if err != nil {
		if i := slices.IndexFunc(result.Attempts, func(a updater.Attempt) bool { return errors.Is(a.Err, updater.ErrDenied) }); i >= 0 && errors.Is(err, updater.ErrNoRelease) {
			err = hintAccess(fmt.Errorf("%w: %w", err, result.Attempts[i].Err))
		}
		if show && a.json {
			return nil, nil, errors.Join(a.print(reportOf(f, result), nil), err)
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
	return u, result.Offer, a.print(r, func() { a.printCheck(r) })
}

func reportOf(f updateFlags, result *updater.Result) checkReport {
	r := checkReport{Available: result.Offer != nil, Current: f.current, Endpoint: result.URL, Offer: result.Offer}
	if result.Response != nil {
		r.Version = result.Response.Version.String()
	}
	for _, attempt := range result.Attempts {
		row := attemptOfCheck{Attempt: attempt}
		if attempt.Err != nil {
			row.Error = attempt.Err.Error()
		}
		r.Attempts = append(r.Attempts, row)
	}
	return r
}

func (a *app) printCheck(r checkReport) {
	if !r.Available {
		fmt.Fprintf(a.stdout, "no update: %s is up to date\n", r.Current)
		return
	}
	fmt.Fprintf(a.stdout, "update available: %s → %s\n%s\n", r.Current, r.Version, r.Offer.URL)
	if r.Offer.Notes != "" {
		fmt.Fprintf(a.stdout, "\n%s\n", r.Offer.Notes)
	}
}

func (a *app) updateDownloadCommand() *cobra.Command {
	var f updateFlags
	var output string
	cmd := &cobra.Command{
		Use:   "download --endpoint URL… --current V --output FILE",
		Short: "Download an update and verify it as the updater does",
		Long: `Download the update that a client would be offered, and verify it as the updater
does. FILE is written only once the signature has been verified.

With --json every event of the updater is one line: {"event": "Started", "data":
{"contentLength"}}, {"event": "Progress", "data": {"chunkLength", "downloaded",
"percent"}}, {"event": "Finished", "data": {}}. Where there is no update the only
line is {"event": "NoUpdate", "data": {}}.`,
		Example: `  tsmon update download --endpoint https://releases.example.com/stable/latest.json --current 1.3.0 --output App.zip`,
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runDownload(cmd.Context(), f, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the bundle to `FILE`")
	f.add(cmd)
	return cmd
}

func (a *app) runDownload(ctx context.Context, f updateFlags, output string) error {
	if output == "" {
		return usagef("--output is missing")
	}
	u, offer, err := a.check(ctx, f, false)
	if err != nil {
		return err
	}
	if len(u.Keys) == 0 {
		return &hinted{usagef("no public key to verify with"), "give --public-key KEY, or set TSMON_TRUSTED_KEYS"}
	}
	if offer == nil {
		if a.json {
			return json.NewEncoder(a.stdout).Encode(updater.Event{Event: "NoUpdate"})
		}
		fmt.Fprintf(a.stdout, "no update: %s is up to date\n", f.current)
		return nil
	}
	progress := a.newProgress("downloaded")
	if err := u.Download(ctx, offer, output, a.downloadEvents(progress, output)); err != nil {
		return hintAccess(err)
	}
	progress.done()
	if !a.json {
		fmt.Fprintf(a.stdout, "%s: version %s, verified\n", output, offer.Version)
	}
	return nil
}

// downloadEvents shows the events: as JSON lines on stdout, or as progress.
func (a *app) downloadEvents(p *progress, output string) func(updater.Event) {
	var total int64
	enc := json.NewEncoder(a.stdout)
	return func(e updater.Event) {
		if a.json {
			_ = enc.Encode(e) // a reader that went away must not break the download
			return
		}
		if e.Event == "Started" {
			total = e.Data.ContentLength
		}
		if e.Event == "Progress" {
			p.transferred(output, e.Data.ChunkLength, total)
		}
	}
}
