package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

const rootHelp = `tsmon releases a Tauri desktop application: it signs update bundles, publishes
them to a directory or to MinIO/S3, moves the channels that installed
applications follow, and rolls them back. Beside it, tsmon serve answers what the
application shows: tenants, users, time series, diagrams and messages.

Exit codes:
  0  done, or nothing to do
  1  failed
  2  usage: wrong flags, arguments or configuration
  3  refused, nothing was moved
  4  conflict: somebody else moved the channel
  5  a signature, key or stored bundle is not to be trusted, or a key can't be used

Environment:
  TSMON_CONFIG        configuration file (default ./tsmon.yaml, if it exists)
  TSMON_STORAGE       s3://BUCKET/PREFIX?endpoint=URL, or a directory
  TSMON_PUBLIC_URL    address where clients find the root of the storage
  TSMON_TRUSTED_KEYS  public keys, comma-separated: the base64 line of a .pub
                      file, the RW… key itself, or a file
  TSMON_LISTEN        address of tsmon serve (default 127.0.0.1:8080)
  TSMON_DATA          folder of everything that is not configured elsewhere
  TSMON_RECORDS       postgres://… or an SQLite file (default records.db in the
                      data folder)
  TSMON_SERIES_URL, TSMON_SERIES_ORG, TSMON_SERIES_TOKEN
                      InfluxDB (default: SQLite, series.db in the data folder)
                      (tsmon serve --help lists what else the server reads)
  TAURI_SIGNING_PRIVATE_KEY           private key, itself or its path
  TAURI_SIGNING_PRIVATE_KEY_PATH      path of the private key
  TAURI_SIGNING_PRIVATE_KEY_PASSWORD  its password
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, MINIO_ROOT_USER, MINIO_ROOT_PASSWORD
                      credentials of the storage; else ~/.aws/credentials,
                      ~/.mc/config.json or the machine's role`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "tsmon",
		Short:         "Release a Tauri desktop application and serve its updates",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          needsCommand,
		Args:          cobra.ArbitraryArgs,
	}
	root.PersistentFlags().StringVar(&a.configPath, "config", "", "configuration `FILE` (default ./tsmon.yaml, if it exists)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "write the result as JSON, and errors too")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress on stderr")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(a.initCommand(), a.keysCommand(), a.releaseCommand(), a.manifestCommand(), a.channelCommand(), a.updateCommand(), a.serveCommand(),
		a.tenantCommand(), a.userCommand(), a.seriesCommand(), a.versionCommand())
	return root
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: needsCommand, Args: cobra.ArbitraryArgs}
	c.AddCommand(commands...)
	return c
}

// flagError is a wrong flag, or a mistyped command whose flags are unknown where
// it was looked for.
func flagError(cmd *cobra.Command, err error) error {
	if before := cmd.Flags().Args(); cmd.HasSubCommands() && len(before) > 0 {
		return needsCommand(cmd, before)
	}
	return &usageError{err}
}

// needsCommand answers a command line that stops short of a command.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s has no command %q%s", cmd.CommandPath(), args[0], hint)
}

// exactly and atLeast are cobra's argument checks with our exit code.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of tsmon",
		Example: "  tsmon version --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{"(devel)", ""}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version, v.Go = info.Main.Version, info.GoVersion
			}
			return a.print(v, func() { fmt.Fprintf(a.stdout, "tsmon %s %s\n", v.Version, v.Go) })
		},
	}
}
