package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/admin"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/guarding"
	"tsmon/cmd/tsmon/keys"
	"tsmon/cmd/tsmon/releasing"
	"tsmon/cmd/tsmon/serving"
	"tsmon/cmd/tsmon/setup"
	"tsmon/cmd/tsmon/sites"
	"tsmon/cmd/tsmon/staging"
	"tsmon/cmd/tsmon/updating"
)

const rootHelp = `tsmon releases updates of a Tauri desktop application: it signs update bundles,
publishes them to a directory or to MinIO/S3, moves the channels that installed
applications update from, and rolls them back. tsmon serve serves the updates and the
data that the application shows: time series, diagrams, menus and messages.

Exit codes:
  0  done, or nothing to do
  1  failed
  2  usage: wrong flags, arguments or configuration, or a missing file
  3  refused, nothing was moved
  4  conflict: somebody else moved the channel
  5  a signature or key can't be trusted

Environment:
  TSMON_CONFIG        configuration file (default ./tsmon.yaml, if it exists)
  TSMON_STORAGE       s3://BUCKET/PREFIX?endpoint=URL, or a directory
  TSMON_PUBLIC_URL    address where clients find the root of the storage
  TSMON_TRUSTED_KEYS  public keys, comma-separated: the base64 line of a .pub
                      file, the RW… key itself, or a file
  TSMON_LISTEN        address of tsmon serve (default ` + config.DefaultListen + `)
  TSMON_DATA          data folder, for everything that has no other location (default
                      ~/.local/share/tsmon, or its subfolder projects/NAME if
                      tsmon.yaml has project: NAME)
  TSMON_RECORDS       postgres://… or an SQLite file (default records.db in the
                      data folder)
  TSMON_SERIES_URL, TSMON_SERIES_ORG, TSMON_SERIES_TOKEN
                      InfluxDB (default: SQLite, series.db in the data folder)
                      (tsmon serve --help lists what else the server reads)
  TAURI_SIGNING_PRIVATE_KEY           private key or its path
  TAURI_SIGNING_PRIVATE_KEY_PATH      path of the private key
  TAURI_SIGNING_PRIVATE_KEY_PASSWORD  its password
  TSMON_OPERATOR_KEY  OpenSSH private key that signs moves, or its path (default: the
                      keys of the agent at SSH_AUTH_SOCK)
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, MINIO_ROOT_USER, MINIO_ROOT_PASSWORD
                      credentials for the storage (default: ~/.aws/credentials,
                      ~/.mc/config.json or the machine's role)`

func rootCommand(app *cli.App) *cobra.Command {
	release := releasing.ReleaseCommand(app, staging.StageCommand(app), staging.DiscardCommand(app), sites.ExportCommand(app), sites.ImportCommand(app), sites.MirrorCommand(app))
	channel := releasing.ChannelCommand(app)
	channel.AddCommand(guarding.AdoptionCommand(app), guarding.GuardCommand(app))
	root := cli.Group("tsmon", "Release a Tauri desktop application and serve its updates",
		setup.InitCommand(app), keys.Command(app),
		release, releasing.PlanCommand(app), updating.ManifestCommand(app), channel, updating.UpdateCommand(app), serving.Command(app),
		admin.TenantCommand(app), admin.UserCommand(app), admin.SeriesCommand(app), admin.BackupCommand(app),
		setup.DoctorCommand(app), setup.ConfigCommand(app), versionCommand(app), manCommand())
	root.Long = rootHelp
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version().String()
	app.Version, app.Commit = version().Version, version().Commit
	root.Flags().Bool("version", false, "print the version of tsmon")
	root.SetVersionTemplate("{{.Version}}\n")
	app.Prepare(root)
	return root
}

// build is what `tsmon version` prints.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit, RFC 3339
	Go      string `json:"go"`
}

// The linker sets these in packages (.goreleaser.yaml).
var linkedVersion, linkedCommit, linkedDate string

func (b build) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("tsmon %s %s %s %s", b.Version, b.Commit, b.Date, b.Go)), " ")
}

// version returns what the linker set, else what the go command recorded.
func version() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
	}
	b := build{Version: cmp.Or(linkedVersion, info.Main.Version), Commit: linkedCommit, Date: linkedDate, Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		}
	}
	return b
}

func versionCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of tsmon",
		Example: "  tsmon version --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version()
			return app.Print(v, func(w io.Writer) { fmt.Fprintln(w, v) })
		},
	}
}
