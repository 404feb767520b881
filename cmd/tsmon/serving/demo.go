package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tsmon/api/console"
	"tsmon/api/monitor"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/demo"
	"tsmon/store/durable"
	"tsmon/store/record"
)

// demoTenant owns the demo's water network.
var demoTenant = record.Tenant{
	Schema: "demo", TsName: "ts_demo",
	Settings: record.Settings{TimeZone: demo.TimeZone, SaveMenu: demo.SaveMenu, PublishMenu: demo.PublishMenu},
}

const (
	demoEmail   = "demo@example.com"
	demoProfile = 1
)

// DemoFile is demo.json: how to log in to a server with the demo.
type DemoFile struct {
	BaseURL string `json:"base_url"`
	console.Login
	AccessKey  string `json:"accesskey"`
	SecretKey  string `json:"secretkey"`
	WriteToken string `json:"write_token,omitempty"` // of /api/v2/write, if there is one
	MQTTURL    string `json:"mqtt_url,omitempty"`    // of the broker in the process, if there is one
}

// consoleOptions returns the console's options. If the demo runs on a server that only this
// machine can reach, they contain the login from demo.json once it is written.
func consoleOptions(c *config.Config, demo bool) console.Options {
	o := console.Options{Images: c.Server.Console.Images}
	if !demo || !isLocal(c.Server.Listen) {
		return o
	}
	o.Demo = func() (console.Login, bool) {
		login := readDemoFile(filepath.Join(c.Data, "demo.json")).Login
		return login, login.TokenApp != ""
	}
	return o
}

// leftDemo reads and removes the demo.json of an earlier start, so that nobody takes it for that
// of this start. It returns nil if no demo is wanted.
func leftDemo(c *config.Config, wanted bool) (*DemoFile, error) {
	if !wanted {
		return nil, nil
	}
	if c.Data == "" {
		return nil, cli.NoFolder("the folder of demo.json (TSMON_DATA)")
	}
	path := filepath.Join(c.Data, "demo.json")
	before := readDemoFile(path)
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return &before, err
}

// mendDemo is the hint for giving the demo its own records.
const mendDemo = "give the demo its own folder with --data FOLDER, and unset TSMON_RECORDS and server.records"

// onlyDemo refuses records with tenants other than the demo's.
func onlyDemo(ctx context.Context, records record.Store) error {
	tenants, err := records.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if t.Schema != demoTenant.Schema {
			return cli.WithHint(cli.Usagef("the records contain the tenant %s; the demo must not run beside it, because anybody can log in as its administrator", t.Schema), mendDemo)
		}
	}
	return nil
}

// warnOfDemo logs that the administrator of an earlier demo can still log in.
func warnOfDemo(ctx context.Context, b *backends) {
	u, err := b.records.User(ctx, demoTenant.Schema, demoEmail)
	if err == nil && len(u.TokenDigest) > 0 {
		b.log.Warn("the administrator of the demo can still log in", "schema", demoTenant.Schema, "user", demoEmail,
			"mend", fmt.Sprintf("tsmon tenant delete %s --yes", demoTenant.Schema))
	}
}

// runDemo fills the demo's tenant, writes demo.json, and adds measurements until the
// context ends. It retries what fails.
func runDemo(ctx context.Context, app *cli.App, c *config.Config, b *backends, base string, before *DemoFile) error {
	path := filepath.Join(c.Data, "demo.json")
	ticks := time.NewTicker(demo.Interval)
	defer ticks.Stop()
	var network *demo.Network
	written := false
	for {
		err := func() (err error) {
			if network == nil {
				if network, err = prepareDemo(ctx, app, b, before); err != nil {
					return err
				}
			}
			if err = measure(ctx, b, network, app.Now()); err != nil || written {
				return err
			}
			written = true
			return writeDemoFile(app, path, b, base, before.TokenApp)
		}()
		if err != nil && ctx.Err() == nil {
			b.log.Error("demo", "error", err)
			network = nil // resume from what is stored
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// prepareDemo creates what does not exist yet. The token of an earlier start stays
// valid; if it is lost, the user gets a new one.
func prepareDemo(ctx context.Context, app *cli.App, b *backends, before *DemoFile) (*demo.Network, error) {
	if err := onlyDemo(ctx, b.records); err != nil { // records may have been down when the server started
		return nil, err
	}
	t, err := b.records.Tenant(ctx, demoTenant.Schema) // its settings may have been changed
	if errors.Is(err, record.ErrNotFound) {
		t, err = demoTenant, b.records.CreateTenant(ctx, demoTenant)
	}
	if err != nil {
		return nil, err
	}
	if t.TsName != demoTenant.TsName {
		return nil, fmt.Errorf("the tenant %s has the database %s: it does not belong to the demo", t.Schema, t.TsName)
	}
	if err := b.series.Create(ctx, demoTenant.TsName); err != nil {
		return nil, err
	}
	u, err := demoUser(ctx, b.records, before)
	if err != nil {
		return nil, err
	}
	menus, err := b.records.Menus(ctx, demoTenant.Schema)
	if err == nil && len(menus) == 0 { // else it was imported before and may have been edited
		err = b.records.Import(ctx, demoTenant.Schema, demo.Content(u.ID, demoProfile))
	}
	if err != nil {
		return nil, err
	}
	return demo.Resume(ctx, b.series, demoTenant.TsName, app.Now())
}

// demoUser returns the demo's user and sets before.TokenApp to the user's token.
func demoUser(ctx context.Context, records record.Store, before *DemoFile) (record.User, error) {
	u, err := records.User(ctx, demoTenant.Schema, demoEmail)
	known := err == nil && u.HasToken(monitor.TokenDigest(before.TokenApp))
	if known || err != nil && !errors.Is(err, record.ErrNotFound) {
		return u, err
	}
	token := cli.RandomText()
	digest := monitor.TokenDigest(token)
	if errors.Is(err, record.ErrNotFound) {
		u, err = records.CreateUser(ctx, demoTenant.Schema, record.User{Email: demoEmail, Profile: demoProfile, Admin: true, TokenDigest: digest})
	} else {
		err = records.SetUserToken(ctx, demoTenant.Schema, demoEmail, digest)
	}
	if err == nil {
		before.TokenApp = token
	}
	return u, err
}

func measure(ctx context.Context, b *backends, network *demo.Network, now time.Time) error {
	for batch := range network.Until(now) {
		if err := b.series.Write(ctx, demoTenant.TsName, batch); err != nil {
			return err
		}
	}
	return nil
}

func writeDemoFile(app *cli.App, path string, b *backends, base, token string) error {
	err := writeJSON(durable.Replace, path, DemoFile{
		BaseURL: base, Login: console.Login{Email: demoEmail, TokenApp: token, Schema: demoTenant.Schema, TsName: demoTenant.TsName},
		AccessKey: b.secrets.AccessKey, SecretKey: b.secrets.SecretKey, WriteToken: b.secrets.WriteToken, MQTTURL: b.mqttURL,
	})
	if err != nil {
		return err
	}
	app.Say("the demo is ready: %s says how to log in", path)
	return nil
}

// readDemoFile returns the content of demo.json, empty if it can't be read.
func readDemoFile(path string) DemoFile {
	var before DemoFile
	text, err := cli.ReadSmall(path)
	if err != nil || json.Unmarshal(text, &before) != nil {
		return DemoFile{}
	}
	return before
}
