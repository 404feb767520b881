package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tsmon/api"
	"tsmon/api/console"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/demo"
	"tsmon/store/record"
)

// demoTenant is who the demo's water network belongs to.
var demoTenant = record.Tenant{
	Schema: "demo", TsName: "ts_demo",
	Settings: record.Settings{TimeZone: demo.TimeZone, SaveMenu: demo.SaveMenu, PublishMenu: demo.PublishMenu},
}

const (
	demoEmail   = "demo@example.com"
	demoProfile = 1
)

// demoFile is demo.json: how to ask a server that shows the demo.
type demoFile struct {
	BaseURL    string `json:"base_url"`
	Email      string `json:"email"`
	TokenApp   string `json:"tokenApp"`
	SchemaName string `json:"schemaName"`
	TsName     string `json:"ts_name"`
	AccessKey  string `json:"accesskey"`
	SecretKey  string `json:"secretkey"`
	WriteToken string `json:"write_token,omitempty"` // of /api/v2/write, if there is one
	MQTTURL    string `json:"mqtt_url,omitempty"`    // of the broker in the process, if there is one
}

// consoleOptions returns the console's options. With the demo, its login is what
// demo.json says once the demo is ready, and only where the server listens to this
// machine alone.
func consoleOptions(c *config.Config, demo bool) console.Options {
	o := console.Options{Images: c.Server.Console.Images}
	if local, err := isLocal(c.Server.Listen); !demo || !local || err != nil {
		return o
	}
	o.Demo = func() (console.Login, bool) {
		d := readDemoFile(filepath.Join(c.Data, "demo.json"))
		return console.Login{Email: d.Email, TokenApp: d.TokenApp, Schema: d.SchemaName, TsName: d.TsName}, d.TokenApp != ""
	}
	return o
}

// leftDemo returns what demo.json of an earlier start says, and removes it, so
// that nobody takes it for that of this one; nil if there is to be no demo.
func leftDemo(c *config.Config, wanted bool) (*demoFile, error) {
	if !wanted {
		return nil, nil
	}
	if c.Data == "" {
		return nil, noFolder("the folder of demo.json (TSMON_DATA)")
	}
	path := filepath.Join(c.Data, "demo.json")
	before := readDemoFile(path)
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return &before, err
}

// runDemo fills the demo's tenant, says in demo.json how to ask for it, and
// goes on measuring until the context ends. What can't be reached now is tried
// again.
func (a *app) runDemo(ctx context.Context, c *config.Config, b *backends, base string, before *demoFile) error {
	path := filepath.Join(c.Data, "demo.json")
	ticks := time.NewTicker(demo.Interval)
	defer ticks.Stop()
	var network *demo.Network
	written := false
	for {
		err := func() (err error) {
			if network == nil {
				if network, err = a.prepareDemo(ctx, b, before); err != nil {
					return err
				}
			}
			if err = measure(ctx, b, network, a.now()); err != nil || written {
				return err
			}
			written = true
			return a.writeDemoFile(path, b, c, base, before.TokenApp)
		}()
		if err != nil && ctx.Err() == nil {
			b.log.Error("demo", "error", err)
			network = nil // it goes on where what is stored ends
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// prepareDemo makes what is not there yet. The token of an earlier start stays
// good; where it is lost, the user gets a new one.
func (a *app) prepareDemo(ctx context.Context, b *backends, before *demoFile) (*demo.Network, error) {
	t, err := b.records.Tenant(ctx, demoTenant.Schema) // whose settings somebody may have changed
	if errors.Is(err, record.ErrNotFound) {
		t, err = demoTenant, b.records.CreateTenant(ctx, demoTenant)
	}
	if err != nil {
		return nil, err
	}
	if t.TsName != demoTenant.TsName {
		return nil, fmt.Errorf("the tenant %s has the database %s: it is not the demo's", t.Schema, t.TsName)
	}
	if err := b.series.Create(ctx, demoTenant.TsName); err != nil {
		return nil, err
	}
	u, err := demoUser(ctx, b.records, before)
	if err != nil {
		return nil, err
	}
	menus, err := b.records.Menus(ctx, demoTenant.Schema)
	if err == nil && len(menus) == 0 { // else it was imported, and perhaps edited
		err = b.records.Import(ctx, demoTenant.Schema, demo.Content(u.ID, demoProfile))
	}
	if err != nil {
		return nil, err
	}
	return demo.Resume(ctx, b.series, demoTenant.TsName, a.now())
}

// demoUser returns the demo's user, whose token is then before.TokenApp.
func demoUser(ctx context.Context, records record.Store, before *demoFile) (record.User, error) {
	u, err := records.User(ctx, demoTenant.Schema, demoEmail)
	known := err == nil && u.HasToken(api.TokenDigest(before.TokenApp))
	if known || err != nil && !errors.Is(err, record.ErrNotFound) {
		return u, err
	}
	token, digest := newToken()
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

// measure stores the values that the network has had until now.
func measure(ctx context.Context, b *backends, network *demo.Network, now time.Time) error {
	for batch := range network.Until(now) {
		if err := b.series.Write(ctx, demoTenant.TsName, batch); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) writeDemoFile(path string, b *backends, c *config.Config, base, token string) error {
	text, err := json.MarshalIndent(demoFile{
		BaseURL: base, Email: demoEmail, TokenApp: token, SchemaName: demoTenant.Schema, TsName: demoTenant.TsName,
		AccessKey: b.secrets.AccessKey, SecretKey: b.secrets.SecretKey, WriteToken: b.options(c).WriteToken, MQTTURL: b.mqttURL,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(path, 0o600, append(text, '\n')); err != nil {
		return err
	}
	a.say("the demo is ready: %s says how to log in", path)
	return nil
}

// readDemoFile returns what an earlier start wrote, as far as it can be read.
func readDemoFile(path string) demoFile {
	var before demoFile
	file, err := os.Open(path)
	if err != nil {
		return before
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil || json.Unmarshal(text, &before) != nil {
		return demoFile{}
	}
	return before
}
