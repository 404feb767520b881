package updating

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/releasing"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/store/durable"
)

// ManifestCommand returns `tsmon manifest`.
func ManifestCommand(app *cli.App) *cobra.Command {
	return cli.Group("manifest", "Build, validate and compare update manifests",
		manifestBuildCommand(app), manifestValidateCommand(app), manifestDiffCommand(app))
}

type buildFlags struct {
	releasing.ContentFlags
	baseURL, output string
	allowUnbound    bool
}

func manifestBuildCommand(app *cli.App) *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "build --version V [flags] DIR|BUNDLE…",
		Short: "Write a manifest for update bundles",
		Long: `Write a manifest for update bundles without publishing anything. Bundles with a
.sig are verified against trusted_keys, the others are signed with the private
key.`,
		Example: `  tsmon manifest build --version 1.4.0 --base-url https://releases.example.com/1.4.0 dist/ > latest.json`,
		RunE:    func(cmd *cobra.Command, args []string) error { return runManifestBuild(cmd.Context(), app, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.baseURL, "base-url", "", "`URL` of the folder for the bundles (default public_url/releases/VERSION)")
	flags.StringVarP(&f.output, "output", "o", "-", "write to `FILE`")
	flags.BoolVar(&f.allowUnbound, "allow-unbound", false, "accept signatures that are not bound to a version; strict applications refuse them")
	f.Add(cmd)
	return cmd
}

func runManifestBuild(ctx context.Context, app *cli.App, f buildFlags, args []string) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	o, err := f.GatherPart(ctx, app, c, args)
	if err != nil {
		return err
	}
	o.Bundles = slices.DeleteFunc(o.Bundles, func(b bundle.Bundle) bool { return b.Also })
	o.AllowUnbound = f.allowUnbound
	base, err := baseURL(f.baseURL, o.Version, c)
	if err != nil {
		return err
	}
	keys, err := cli.Keyring(c.TrustedKeys)
	if err != nil {
		return err
	}
	progress := app.NewProgress("read")
	p := &release.Publisher{Keys: keys, Who: app.Who(), Now: app.Now, Transferred: progress.Transferred, Step: progress.Step}
	m, err := p.Build(ctx, o, base)
	if err != nil {
		return err
	}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if f.output == "-" {
		return app.Write(data)
	}
	return durable.Replace(f.output, 0o644, data)
}

// baseURL is the address of the folder for the bundles: what was given, else the
// release's folder.
func baseURL(base, version string, c *config.Config) (string, error) {
	if base == "" && c.PublicURL != "" {
		base = c.PublicURL + "/releases/" + version
	}
	if base == "" {
		return "", cli.Usagef("--base-url is missing, and public_url is not configured")
	}
	return strings.TrimRight(base, "/"), checkAddress("--base-url", base)
}

type validateFlags struct {
	download       bool
	format         string
	requireVersion bool
	access         accessFlags
}

func manifestValidateCommand(app *cli.App) *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE|URL",
		Short: "Report every problem of a manifest and how to fix it",
		Long: `Report every problem of a manifest and how to fix it. Signatures are checked
against trusted_keys, if configured; --download fetches every bundle and verifies
it as a client does. The configured updates token is sent to addresses below public_url.

Exit code 3 if the manifest is wrong, 5 if a key or signature can't be
trusted. JSON: {"valid", "version", "platforms", "problems": [{"place", "line",
"column", "problem", "mend", "trust"}], "warnings"}.`,
		Example: `  tsmon manifest validate latest.json
  tsmon manifest validate --download https://releases.example.com/stable/latest.json
  tsmon manifest validate --format github latest.json`,
		Args: cli.Args(1, 1, "one FILE or URL, - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error { return runValidate(cmd.Context(), app, f, args[0]) },
	}
	cmd.Flags().BoolVar(&f.download, "download", false, "fetch every bundle and verify it as a client does")
	cmd.Flags().StringVar(&f.format, "format", "text", "text, or github for annotations in a workflow")
	cmd.Flags().BoolVar(&f.requireVersion, "require-signed-version", false, "refuse signatures that are not bound to a version, as strict applications do")
	f.access.add(cmd)
	return cmd
}

// Validation is what `tsmon manifest validate --json` prints.
type Validation struct {
	Source    string            `json:"source"`
	Valid     bool              `json:"valid"`
	Version   string            `json:"version"`
	Platforms []string          `json:"platforms"`
	Problems  manifest.Problems `json:"problems"`
	Warnings  []string          `json:"warnings,omitempty"`
}

func runValidate(ctx context.Context, app *cli.App, f validateFlags, source string) error {
	if f.format != "text" && f.format != "github" {
		return cli.Usagef("--format is text or github, not %q", f.format)
	}
	c, client, err := f.access.client(app)
	if err != nil {
		return err
	}
	keys, err := cli.Keyring(c.TrustedKeys)
	if err != nil {
		return err
	}
	if f.download && len(keys) == 0 {
		return cli.WithHint(cli.Usagef("--download needs trusted_keys"), "set TSMON_TRUSTED_KEYS to the pubkey of tauri.conf.json")
	}
	data, err := readManifest(ctx, app, client, source)
	if err != nil {
		return err
	}
	doc, problems := manifest.Check(data, manifest.Rules{Keys: keys, AllowUnbound: !f.requireVersion})
	if f.download && len(problems) == 0 {
		client.Keys, client.RequireVersion = keys, f.requireVersion
		if problems, err = validateBundles(ctx, app, &updater.Prober{Updater: *client}, doc); err != nil {
			return err
		}
	}
	v := Validation{Source: source, Valid: len(problems) == 0, Version: doc.Version, Platforms: doc.Keys(), Problems: problems, Warnings: unbound(&doc.Manifest)}
	if v.Problems == nil {
		v.Problems = manifest.Problems{}
	}
	return printValidation(app, v, f)
}

func readManifest(ctx context.Context, app *cli.App, client *updater.Updater, source string) ([]byte, error) {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		data, err := client.FetchManifest(ctx, source)
		return data, hintAccess(err)
	}
	return app.ReadInput(source, manifest.MaxSize+1)
}

// validateBundles downloads every bundle and returns failures as problems.
func validateBundles(ctx context.Context, app *cli.App, prober *updater.Prober, doc *manifest.Document) (manifest.Problems, error) {
	var problems manifest.Problems
	err := prober.Bundles(ctx, &doc.Manifest, func(key string, err error) error {
		if err == nil {
			app.Say("verified %s", key)
			return nil
		}
		place := "platforms." + key + ".url"
		line, column := doc.At(place)
		trust, mend := cli.ExitCode(err) == cli.ExitTrust, "put the bundle where the address points"
		if trust || errors.Is(err, updater.ErrDenied) {
			mend = cli.HintFor(hintAccess(err))
		}
		problems = append(problems, manifest.Problem{Place: place, Line: line, Column: column, Problem: err.Error(),
			Mend: mend, Trust: trust, Err: err})
		return ctx.Err()
	})
	return problems, err
}

// unbound returns a warning for each signature that strict applications refuse.
func unbound(m *manifest.Manifest) []string {
	var warnings []string
	for _, key := range m.Unbound() {
		warnings = append(warnings, "platforms."+key+".signature names no version: applications with requireSignedVersion refuse it")
	}
	return warnings
}

func printValidation(app *cli.App, v Validation, f validateFlags) error {
	err := app.Print(v, func(w io.Writer) {
		for _, p := range v.Problems {
			if f.format == "github" {
				fmt.Fprintln(w, annotation(v.Source, p))
				continue
			}
			fmt.Fprintf(w, "%s:%d:%d: %s: %s\n  mend: %s\n", v.Source, p.Line, p.Column, cmp.Or(p.Place, "document"), p.Problem, p.Mend)
		}
		if v.Valid && f.format == "text" {
			fmt.Fprintf(w, "%s: version %s for %s: valid\n", v.Source, v.Version, strings.Join(v.Platforms, ", "))
		}
	})
	if err != nil {
		return err
	}
	app.Warn(v.Warnings)
	if v.Valid {
		return nil
	}
	if app.JSON {
		return cli.Printed(v.Problems)
	}
	return cli.WithHint(cli.Reword(v.Problems, "%s", cli.Count(len(v.Problems), "problem", "problems")), "each problem is listed above with its fix")
}

// annotation is a GitHub workflow command. Properties and message are escaped
// differently.
func annotation(source string, p manifest.Problem) string {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::error file=%s,line=%d,col=%d,title=%s::%s", property.Replace(source), p.Line, p.Column,
		property.Replace(cmp.Or(p.Place, "manifest")), message.Replace(p.Problem+"; "+p.Mend))
}

func manifestDiffCommand(app *cli.App) *cobra.Command {
	var f accessFlags
	cmd := &cobra.Command{
		Use:     "diff A B",
		Short:   "Show the differences between two manifests",
		Example: "  tsmon manifest diff latest.json https://releases.example.com/stable/latest.json",
		Args:    cli.Args(2, 2, "two FILEs or URLs"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runManifestDiff(cmd.Context(), app, f, args) },
	}
	f.add(cmd)
	return cmd
}

func runManifestDiff(ctx context.Context, app *cli.App, f accessFlags, sources []string) error {
	_, client, err := f.client(app)
	if err != nil {
		return err
	}
	var both [2]*manifest.Manifest
	for i, source := range sources {
		data, err := readManifest(ctx, app, client, source)
		if err != nil {
			return err
		}
		doc, problems := manifest.Check(data, manifest.Rules{AllowUnbound: true})
		if doc.Version == "" && len(doc.Platforms) == 0 {
			return fmt.Errorf("%s: %w", source, problems)
		}
		for _, p := range problems {
			app.Say("%s: %s", source, p)
		}
		both[i] = &doc.Manifest
	}
	changes := manifest.Diff(both[0], both[1])
	if changes == nil {
		changes = []manifest.Change{}
	}
	return app.Print(changes, func(w io.Writer) {
		for _, c := range changes {
			fmt.Fprintf(w, "%s\n  - %s\n  + %s\n", c.Place, c.Before, c.After)
		}
		if len(changes) == 0 {
			fmt.Fprintln(w, "no difference")
		}
	})
}
