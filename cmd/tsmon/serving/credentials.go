package serving

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/durable"
	"tsmon/store/record"
)

func secretsCommand(app *cli.App) *cobra.Command {
	var data string
	var rotate bool
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Show the credentials for uploads and for writing line protocol",
		Long: `Show the credentials in force: the key pair for uploads and the token for
/api/v2/write. Those that are not configured were generated at the first start. They are
stored in secrets.json in the data folder or, with TSMON_SECRET, encrypted in the records.

--rotate replaces the generated ones. Every running server switches to the new ones
within ten seconds, or at once when it reloads (SIGHUP), and then refuses the old ones.`,
		Example: `  tsmon serve secrets --json
  tsmon serve secrets --rotate`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSecrets(cmd.Context(), app, data, rotate) },
	}
	dataFlag(cmd, &data)
	cmd.Flags().BoolVar(&rotate, "rotate", false, "replace the generated credentials")
	return cmd
}

func runSecrets(ctx context.Context, app *cli.App, data string, rotate bool) error {
	c, err := loadWith(app, data)
	if err != nil {
		return err
	}
	var set Secrets
	if c.Server.HasSecret() {
		err = cli.WithRecords(ctx, c, func(records record.Store) error {
			set, err = sharedCredentials(ctx, c, records, rotate)
			return err
		})
	} else {
		if err = checkOpenFile(ctx, c); err == nil && rotate {
			err = rotateFile(c)
		}
		if err == nil {
			set, err = clientSecrets(ctx, c, nil)
		}
	}
	if err != nil {
		return err
	}
	return app.Print(set, func(w io.Writer) {
		cli.Table(w, [][]string{{"accesskey", set.AccessKey}, {"secretkey", set.SecretKey}, {"write_token", set.WriteToken}})
	})
}

func sharedCredentials(ctx context.Context, c *config.Config, records record.Store, rotate bool) (Secrets, error) {
	shared, err := openVault(c, records)
	if err != nil {
		return Secrets{}, err
	}
	set, err := clientSecrets(ctx, c, shared)
	if err != nil || !rotate {
		return set, err
	}
	err = shared.Row(clientRow).Replace(ctx, func([]byte) ([]byte, error) {
		return json.Marshal(newSecrets()) //nolint:gosec // it is encrypted
	})
	if err != nil {
		return Secrets{}, explainVault(err)
	}
	return clientSecrets(ctx, c, shared)
}

func rotateFile(c *config.Config) error {
	if c.Data == "" {
		return cli.NoFolder("server.upload (TSMON_UPLOAD_ACCESS_KEY)")
	}
	path := filepath.Join(c.Data, "secrets.json")
	if _, err := keptSecrets(path); err != nil {
		return err
	}
	return writeJSON(durable.Replace, path, newSecrets())
}

func newSecrets() Secrets {
	return Secrets{AccessKey: cli.RandomText(), SecretKey: cli.RandomText(), WriteToken: cli.RandomText()}
}
