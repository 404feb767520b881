package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/backup"
	"tsmon/store/durable"
)

// BackupCommand returns `tsmon backup`.
func BackupCommand(app *cli.App) *cobra.Command {
	return cli.Group("backup", "Copy the data folder of a running server, and restore it", backupCreateCommand(app), backupRestoreCommand(app))
}

// Backup is what the backup commands print.
type Backup struct {
	File   string `json:"file"`
	Folder string `json:"folder,omitempty"` // that was restored
	backup.Contents
}

func (b Backup) show(app *cli.App, verb string) error {
	return app.Print(b, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s: %d files of %d bytes, made %s\n", verb, b.File, len(b.Files), b.Bytes(), b.Made.Format("2006-01-02 15:04:05 MST"))
	})
}

func backupCreateCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "create FILE",
		Short: "Copy records, time series, uploads and keys to a file",
		Long: `Copy the data folder of the monitoring server to a file, while the server runs:
records and time series (each in a consistent state), uploads, the keys of access
tokens and the secrets of clients. Keep the file (mode 0600) as secret as those. With
TSMON_SECRET, keys and secrets are encrypted in the file as they are in the records. A
file that TSMON_TOKEN_KEYS names is not copied.

Releases and channel logs are not included: they are in the storage, and
` + "`tsmon release export`" + ` copies them. PostgreSQL, InfluxDB and S3 have their own backup tools.`,
		Example: `  tsmon backup create /var/backups/tsmon-$(date +%F).tar.zst`,
		Args:    cli.Args(1, 1, "a FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runBackupCreate(cmd.Context(), app, args[0]) },
	}
}

func runBackupCreate(ctx context.Context, app *cli.App, path string) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	sources, err := backupSources(c)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return cli.WithHint(cli.Refuse(fmt.Errorf("%s exists already", path)), "name another FILE, or move the existing one away")
	}
	scratch, err := os.MkdirTemp(filepath.Dir(path), ".tsmon-backup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	var contents backup.Contents
	err = durable.CreateBy(path, 0o600, func(w io.Writer) (err error) {
		contents, err = backup.Create(ctx, w, scratch, app.Now(), sources, func() ([]backup.Source, error) { return uploadsOf(c) })
		return err
	})
	if err != nil {
		return err
	}
	return Backup{File: path, Contents: contents}.show(app, "wrote")
}

// backupSources returns the local data except uploads, under the names that they have in a data
// folder.
func backupSources(c *config.Config) (sources []backup.Source, err error) {
	if cli.RecordsFile(c) == "" {
		return nil, cli.Usagef("the records are in PostgreSQL: pg_dump makes backups of them")
	}
	files := []backup.Source{
		{Name: "records.db", Path: cli.RecordsFile(c)}, {Name: "series.db", Path: cli.SeriesFile(c)},
	}
	if !c.Server.HasSecret() { // else they are in the records, encrypted
		files = append(files, backup.Source{Name: "token-keys.json", Path: c.Server.TokenKeys}, backup.Source{Name: "secrets.json", Path: filepath.Join(c.Data, "secrets.json")})
	}
	for _, s := range files {
		switch _, err := os.Stat(s.Path); {
		case err == nil:
			sources = append(sources, s)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if !slices.ContainsFunc(sources, func(s backup.Source) bool { return s.Name == "records.db" }) {
		return nil, fmt.Errorf("%s: %w", cli.RecordsFile(c), cli.ErrNoRecords)
	}
	return sources, nil
}

// uploadsOf lists the local uploads. It is called after the records were copied, so that
// every upload which they name is listed unless it was deleted.
func uploadsOf(c *config.Config) (sources []backup.Source, err error) {
	if strings.Contains(c.Storage, "://") {
		return nil, nil
	}
	uploads, err := os.ReadDir(filepath.Join(c.Storage, "uploads"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, file := range uploads {
		if file.Type().IsRegular() {
			sources = append(sources, backup.Source{Name: "objects/uploads/" + file.Name(), Path: filepath.Join(c.Storage, "uploads", file.Name())})
		}
	}
	return sources, nil
}

func backupRestoreCommand(app *cli.App) *cobra.Command {
	var data string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "restore FILE --data FOLDER",
		Short: "Restore a data folder from a backup",
		Long: `Restore a data folder from a backup. Every file is compared with its checksum, and each
database is checked. The folder must be missing or empty; it gets its name only once
everything is in place. --dry-run only verifies.`,
		Example: `  tsmon backup restore tsmon-2026-03-05.tar.zst --dry-run
  tsmon backup restore tsmon-2026-03-05.tar.zst --data /var/lib/tsmon`,
		Args: cli.Args(1, 1, "a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBackupRestore(cmd.Context(), app, args[0], data, dryRun)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "`FOLDER` to create (default TSMON_DATA)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "verify the backup, write nothing")
	return cmd
}

func runBackupRestore(ctx context.Context, app *cli.App, path, folder string, dryRun bool) error {
	if folder == "" {
		c, err := app.Load()
		if err != nil {
			return err
		}
		folder = c.Data
	}
	if folder == "" {
		return cli.NoFolder("the folder to make")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return cli.Given(err)
	}
	defer file.Close()
	found, err := os.ReadDir(folder)
	inUse := len(found) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
	if inUse && !dryRun {
		return cli.WithHint(cli.Refuse(fmt.Errorf("%s: %w", folder, backup.ErrInUse)), "name another folder with --data, or move the existing one away")
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(folder), ".tsmon-restore-*") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if dryRun {
		folder = ""
	}
	contents, err := backup.Restore(ctx, file, scratch, folder)
	if err != nil {
		return err
	}
	return Backup{File: path, Folder: folder, Contents: contents}.show(app, cli.Verb(dryRun, "restored", "verified"))
}
