package releasing

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/store/durable"
)

func releaseSignCommand(app *cli.App) *cobra.Command {
	var version, key string
	cmd := &cobra.Command{
		Use:   "sign [--version V] BUNDLE…",
		Short: "Write BUNDLE.sig for each bundle, as the Tauri CLI does",
		Long: `Write BUNDLE.sig for each bundle, as the Tauri CLI does: one base64 line. The
signature is bound to the version, and to the target if the bundle's name contains
one. Bundles are read concurrently, in constant memory.

SOURCE_DATE_EPOCH (seconds since 1970) sets the time in the signatures, so that
signing the same bytes again gives the same signatures.`,
		Example: `  tsmon release sign --version 1.4.0 dist/*.zip dist/*.tar.gz
  TAURI_SIGNING_PRIVATE_KEY=~/.tauri/app.key tsmon release sign --version 1.4.0 App_1.4.0_x64_en-US.msi.zip`,
		Args: cli.Args(1, -1, "at least one BUNDLE"),
		RunE: func(cmd *cobra.Command, args []string) error { return runSign(cmd.Context(), app, version, key, args) },
	}
	cmd.Flags().StringVar(&version, "version", "", "`VERSION` that the signatures are bound to (default: that of tauri.conf.json)")
	cmd.Flags().StringVar(&key, "key", "", "private key `FILE` (default from the environment)")
	return cmd
}

func runSign(ctx context.Context, app *cli.App, version, keyFile string, paths []string) error {
	version, err := app.ProjectVersion(version)
	if err != nil {
		return err
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		isSignature := strings.HasSuffix(path, ".sig")
		if isSignature {
			app.Say("skipped %s: it is a signature", path)
		}
		return isSignature
	})
	if len(paths) == 0 {
		return cli.Usagef("at least one bundle is needed")
	}
	if _, err := manifest.ParseVersion(version); err != nil {
		return cli.Refuse(err)
	}
	for _, path := range paths { // before a password is asked for
		if _, err := os.Stat(path); err != nil {
			return cli.Given(err)
		}
	}
	c, err := app.Load()
	if err != nil {
		return err
	}
	unlock, err := app.LockedKey(ctx, c, keyFile)
	if err != nil {
		return err
	}
	if unlock == nil {
		return cli.ErrNoKey
	}
	now, err := signingTime(app)
	if err != nil {
		return err
	}
	progress := app.NewProgress("signed")
	signer := bundle.Reader{Unlock: unlock, Version: version, Now: now, Transferred: progress.Transferred}
	signed, err := signer.Sign(ctx, paths)
	if err != nil {
		return err
	}
	for _, s := range signed {
		if err := durable.Replace(s.Sig, 0o644, []byte(s.Signature.String())); err != nil {
			return err
		}
	}
	return app.Print(signed, func(w io.Writer) {
		for _, s := range signed {
			fmt.Fprintln(w, s.Sig)
		}
	})
}

// signingTime returns the clock of signatures, which SOURCE_DATE_EPOCH stops.
func signingTime(app *cli.App) (func() time.Time, error) {
	epoch := app.Variable("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return app.Now, nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return nil, cli.Usagef("the time in SOURCE_DATE_EPOCH is not a number of seconds: %q", epoch)
	}
	return func() time.Time { return time.Unix(seconds, 0) }, nil
}
