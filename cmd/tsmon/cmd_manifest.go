package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
)

func (a *app) manifestCommand() *cobra.Command {
	return group("manifest", "Build, validate and compare update manifests",
		a.manifestBuildCommand(), a.manifestValidateCommand(), a.manifestDiffCommand())
}

type buildFlags struct {
	contentFlags
	baseURL, output string
	allowUnbound    bool
}

func (a *app) manifestBuildCommand() *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "build --version V [flags] DIR|BUNDLE…",
		Short: "Write the manifest of update bundles",
		Long: `Write the manifest of update bundles, without publishing anything. Bundles that
have a .sig are verified against trusted_keys, the others are signed with the
private key.`,
		Example: `  tsmon manifest build --version 1.4.0 --base-url https://releases.example.com/1.4.0 dist/ > latest.json`,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runManifestBuild(cmd.Context(), f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.baseURL, "base-url", "", "address of the folder that the bundles will be in (default public_url/releases/VERSION)")
	flags.StringVarP(&f.output, "output", "o", "-", "write to `FILE`")
	flags.BoolVar(&f.allowUnbound, "allow-unbound", false, "accept signatures that name no version; strict applications refuse them")
	f.contentFlags.add(cmd)
	return cmd
}

func (a *app) runManifestBuild(ctx context.Context, f buildFlags, args []string) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	o, err := a.gather(ctx, c, f.contentFlags, args)
	if err != nil {
		return err
	}
	o.AllowUnbound = f.allowUnbound
	base, err := baseURL(f, c)
	if err != nil {
		return err
	}
	keys, err := keyring(c.TrustedKeys)
	if err != nil {
		return err
	}
	progress := a.newProgress("read")
	p := &release.Publisher{Keys: keys, Who: a.who(), Now: a.now, Transferred: progress.transferred, Step: progress.step}
	m, err := p.Build(ctx, o, base)
	progress.done()
	if err != nil {
		return err
	}
	return a.writeManifest(m, f.output)
}

// baseURL is the address of the folder that the bundles will be in.
func baseURL(f buildFlags, c *config.Config) (string, error) {
	base := f.baseURL
	if base == "" && c.PublicURL != "" {
		base = c.PublicURL + "/releases/" + f.version
	}
	if base == "" {
		return "", usagef("--base-url is missing, and public_url is not configured")
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usagef("--base-url %s is not an absolute http(s) address", base)
	}
	return strings.TrimRight(base, "/"), nil
}

func (a *app) writeManifest(m *manifest.Manifest, output string) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if output == "-" {
		_, err = a.stdout.Write(data)
		return err
	}
	return writeFile(output, 0o644, data)
}

type validateFlags struct {
	download       bool
	format         string
	requireVersion bool
	access         accessFlags
}

func (a *app) manifestValidateCommand() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE|URL",
		Short: "Name everything that is wrong with a manifest, and its mend",
		Long: `Name everything that is wrong with a manifest, and its mend. Signatures are
judged against trusted_keys, where keys are configured; --download fetches every
bundle and verifies it like a client.

Exit code 3 if the manifest is wrong, 5 if a key or signature is not to be
trusted. JSON: {"valid", "version", "platforms", "problems": [{"place", "line",
"column", "problem", "mend", "trust"}], "warnings"}.`,
		Example: `  tsmon manifest validate latest.json
  tsmon manifest validate --download https://releases.example.com/stable/latest.json
  tsmon manifest validate --format github latest.json`,
		Args: exactly(1, "one FILE or URL, - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runValidate(cmd.Context(), f, args[0]) },
	}
	cmd.Flags().BoolVar(&f.download, "download", false, "fetch every bundle and verify it like a client")
	cmd.Flags().StringVar(&f.format, "format", "text", "text, or github for annotations in a workflow")
	cmd.Flags().BoolVar(&f.requireVersion, "require-signed-version", false, "refuse signatures that name no version, as strict applications do")
	f.access.add(cmd)
	return cmd
}

// validation is what `tsmon manifest validate --json` prints.
type validation struct {
	Source    string            `json:"source"`
	Valid     bool              `json:"valid"`
	Version   string            `json:"version"`
	Platforms []string          `json:"platforms"`
	Problems  manifest.Problems `json:"problems"`
	Warnings  []string          `json:"warnings,omitempty"`
}

func (a *app) runValidate(ctx context.Context, f validateFlags, source string) error {
	if f.format != "text" && f.format != "github" {
		return usagef("--format is text or github, not %q", f.format)
	}
	header, err := f.access.header()
	if err != nil {
		return err
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	keys, err := keyring(c.TrustedKeys)
	if err != nil {
		return err
	}
	if f.download && len(keys) == 0 {
		return &hinted{usagef("--download needs trusted_keys"), "set TSMON_TRUSTED_KEYS to the pubkey of tauri.conf.json"}
	}
	client := &updater.Updater{HTTP: httpClient(), Header: header, Token: updatesToken(c)}
	data, err := a.readManifest(ctx, client, source)
	if err != nil {
		return err
	}
	doc, problems := manifest.Check(data, manifest.Rules{Keys: keys, AllowUnbound: !f.requireVersion})
	if f.download && len(problems) == 0 {
		prober := &updater.Prober{HTTP: client.HTTP, Keys: keys, AllowUnbound: !f.requireVersion, Header: header, Token: client.Token}
		if problems, err = a.validateBundles(ctx, prober, doc); err != nil {
			return err
		}
	}
	v := validation{Source: source, Valid: len(problems) == 0, Version: doc.Version, Platforms: doc.Keys(), Problems: problems, Warnings: unbound(&doc.Manifest)}
	if v.Problems == nil {
		v.Problems = manifest.Problems{}
	}
	return a.printValidation(v, f)
}

// readManifest reads a file, stdin (-) or a URL.
func (a *app) readManifest(ctx context.Context, client *updater.Updater, source string) ([]byte, error) {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		data, err := client.FetchManifest(ctx, source)
		return data, hintAccess(err)
	}
	var r io.Reader = a.stdin
	if source != "-" {
		file, err := os.Open(source)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		r = file
	}
	return io.ReadAll(io.LimitReader(r, manifest.MaxSize+1))
}

// validateBundles downloads every bundle and turns what fails into problems.
func (a *app) validateBundles(ctx context.Context, prober *updater.Prober, doc *manifest.Document) (manifest.Problems, error) {
	var problems manifest.Problems
	err := prober.Bundles(ctx, &doc.Manifest, func(key string, err error) error {
		if err == nil {
			a.say("verified %s", key)
			return nil
		}
		place := "platforms." + key + ".url"
		line, column := doc.At(place)
		trust := exitCode(err) == exitTrust
		problems = append(problems, manifest.Problem{Place: place, Line: line, Column: column, Problem: err.Error(),
			Mend: mendDownload(err, trust), Trust: trust, Err: err})
		return ctx.Err()
	})
	return problems, err
}

func mendDownload(err error, trust bool) string {
	if trust || errors.Is(err, updater.ErrDenied) {
		return hintFor(hintAccess(err))
	}
	return "put the bundle where the address points"
}

// unbound warns of signatures that strict applications refuse.
func unbound(m *manifest.Manifest) []string {
	var warnings []string
	for _, key := range m.Unbound() {
		warnings = append(warnings, "platforms."+key+".signature names no version: applications with requireSignedVersion refuse it")
	}
	return warnings
}

func (a *app) printValidation(v validation, f validateFlags) error {
	err := a.print(v, func() {
		for _, p := range v.Problems {
			if f.format == "github" {
				fmt.Fprintln(a.stdout, annotation(v.Source, p))
				continue
			}
			fmt.Fprintf(a.stdout, "%s:%d:%d: %s: %s\n  mend: %s\n", v.Source, p.Line, p.Column, cmp.Or(p.Place, "document"), p.Problem, p.Mend)
		}
		if v.Valid && f.format == "text" {
			fmt.Fprintf(a.stdout, "%s: version %s for %s: valid\n", v.Source, v.Version, strings.Join(v.Platforms, ", "))
		}
	})
	if err != nil {
		return err
	}
	a.warn(v.Warnings)
	if v.Valid {
		return nil
	}
	if a.json {
		return &silent{v.Problems}
	}
	return &hinted{&counted{v.Problems}, "each problem stands above with its mend"}
}

// counted says how many problems there are, not which: those were printed.
type counted struct{ manifest.Problems }

func (c *counted) Error() string {
	if len(c.Problems) == 1 {
		return "1 problem"
	}
	return fmt.Sprintf("%d problems", len(c.Problems))
}

func (c *counted) Unwrap() error { return c.Problems }

// annotation is a GitHub workflow command; its properties and its message have
// escapes of their own.
func annotation(source string, p manifest.Problem) string {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::error file=%s,line=%d,col=%d,title=%s::%s", property.Replace(source), p.Line, p.Column,
		property.Replace(cmp.Or(p.Place, "manifest")), message.Replace(p.Problem+"; "+p.Mend))
}

func (a *app) manifestDiffCommand() *cobra.Command {
	var f accessFlags
	cmd := &cobra.Command{
		Use:     "diff A B",
		Short:   "Show what differs between two manifests",
		Example: "  tsmon manifest diff latest.json https://releases.example.com/stable/latest.json",
		Args:    exactly(2, "two FILEs or URLs"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runManifestDiff(cmd.Context(), f, args) },
	}
	f.add(cmd)
	return cmd
}

func (a *app) runManifestDiff(ctx context.Context, f accessFlags, sources []string) error {
	header, err := f.header()
	if err != nil {
		return err
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	client := &updater.Updater{HTTP: httpClient(), Header: header, Token: updatesToken(c)}
	var both [2]*manifest.Manifest
	for i, source := range sources {
		data, err := a.readManifest(ctx, client, source)
		if err != nil {
			return err
		}
		doc, problems := manifest.Check(data, manifest.Rules{AllowUnbound: true})
		if doc.Version == "" && len(doc.Platforms) == 0 {
			return fmt.Errorf("%s: %w", source, problems)
		}
		for _, p := range problems {
			a.say("%s: %s", source, p)
		}
		both[i] = &doc.Manifest
	}
	changes := manifest.Diff(both[0], both[1])
	if changes == nil {
		changes = []manifest.Change{}
	}
	return a.print(changes, func() {
		var out bytes.Buffer
		for _, c := range changes {
			fmt.Fprintf(&out, "%s\n  - %s\n  + %s\n", c.Place, c.Before, c.After)
		}
		if len(changes) == 0 {
			out.WriteString("no difference\n")
		}
		a.stdout.Write(out.Bytes())
	})
}
