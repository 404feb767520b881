package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/manifest"
	"tsmon/release/bundle"
)

func (a *app) releaseSignCommand() *cobra.Command {
	var version, key string
	cmd := &cobra.Command{
		Use:   "sign --version V BUNDLE…",
		Short: "Write BUNDLE.sig for each bundle, as the Tauri CLI does",
		Long: `Write BUNDLE.sig for each bundle, as the Tauri CLI does: one base64 line. The
signature is bound to the version, and to the target where the bundle's name
tells it. Bundles are read side by side, in constant memory.`,
		Example: `  tsmon release sign --version 1.4.0 dist/*.zip dist/*.tar.gz
  TAURI_SIGNING_PRIVATE_KEY=~/.tauri/app.key tsmon release sign --version 1.4.0 App_1.4.0_x64_en-US.msi.zip`,
		Args: atLeast(1, "one BUNDLE at least"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runSign(cmd.Context(), version, key, args) },
	}
	cmd.Flags().StringVar(&version, "version", "", "`VERSION` that the signatures are bound to")
	cmd.Flags().StringVar(&key, "key", "", "private key `FILE` (default from the environment)")
	return cmd
}

func (a *app) runSign(ctx context.Context, version, keyFile string, paths []string) error {
	if version == "" {
		return usagef("--version is missing: it is bound into the signature")
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		isSignature := strings.HasSuffix(path, ".sig")
		if isSignature {
			a.say("left aside: %s is a signature itself", path)
		}
		return isSignature
	})
	if len(paths) == 0 {
		return usagef("name one bundle at least")
	}
	if _, err := manifest.ParseVersion(version); err != nil {
		return &refused{err}
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	unlock, err := a.lockedKey(ctx, c, keyFile)
	if err != nil {
		return err
	}
	if unlock == nil {
		return noKey()
	}
	progress := a.newProgress("signed")
	signer := bundle.Reader{Unlock: unlock, Version: version, Now: a.now, Transferred: progress.transferred}
	signed, err := signer.Sign(ctx, paths)
	progress.done()
	if err != nil {
		return err
	}
	for _, s := range signed {
		if err := writeFile(s.Sig, 0o644, []byte(s.Signature.String())); err != nil {
			return err
		}
	}
	return a.print(signed, func() {
		for _, s := range signed {
			fmt.Fprintln(a.stdout, s.Sig)
		}
	})
}
