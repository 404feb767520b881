package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/api/fleet"
	"tsmon/api/monitor/mqtt"
	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/store/record"
)

// Load reads the configuration and checks it by the rules of the packages that use it.
func (a *App) Load() (*config.Config, error) {
	i := config.Inspect(a.ConfigPath, a.Environ)
	if len(i.Mistakes) == 0 {
		i.Add(checkChannels(i.Config))
		i.Add(checkOperators(i.Config))
	}
	if len(i.Mistakes) > 0 {
		return nil, WithHint(Usage(i.Mistakes), cmp.Or(i.Mistakes[0].Mend, "`tsmon config check` shows every mistake with its place; see README.md for a configuration, `tsmon help` for the environment"))
	}
	return i.Config, nil
}

// Inspect reads the configuration and finds every mistake that can be found without a request
// to a store or a server. The guards of channels get their defaults.
func (a *App) Inspect(ctx context.Context) *config.Inspection {
	i := config.Inspect(a.ConfigPath, a.Environ)
	i.Add(checkChannels(i.Config))
	i.Add(checkOperators(i.Config))
	i.Add(checkKeys(i.Config))
	if _, err := a.OpenStore(ctx, i.Config.Storage); err != nil {
		i.Add(config.Mistakes{{Setting: "storage", Text: err.Error(), Mend: HintFor(err)}})
	}
	if _, err := OpenPresigner(i.Config); err != nil {
		i.Add(config.Mistakes{{Setting: "server.updates.presign_endpoint", Text: err.Error(), Mend: HintFor(err)}})
	}
	if i.Config.Server.Series.URL != "" {
		if store, err := OpenSeries(ctx, i.Config); err != nil {
			i.Add(config.Mistakes{{Setting: "server.series.url", Text: err.Error(), Mend: HintFor(err)}})
		} else {
			_ = store.Close() // it holds nothing
		}
	}
	if broker := string(i.Config.Server.MQTT.URL); broker != "" {
		if err := BadBroker(mqtt.CheckURL(broker)); err != nil {
			i.Add(config.Mistakes{{Setting: "server.mqtt.url", Text: err.Error(), Mend: HintFor(err)}})
		}
	}
	for name, channel := range i.Config.Channels {
		guard := GuardOf(channel)
		failures := config.Percent(guard.Failures)
		channel.Guard = config.Guard{Failures: &failures, Networks: &guard.Networks}
		i.Config.Channels[name] = channel
	}
	return i
}

// BadBroker explains that the URL of the broker has another form, unless err is nil.
func BadBroker(err error) error {
	if err == nil {
		return nil
	}
	return WithHint(Usagef("server.mqtt.url is not a usable address: %w", err),
		"write TSMON_MQTT_URL like mqtts://USER:PASSWORD@HOST:8883; special characters of the password as %XX")
}

// checkChannels returns a mistake for each invalid setting of a channel.
func checkChannels(c *config.Config) (found config.Mistakes) {
	add := func(setting, shown string, err error) {
		found = append(found, config.Mistake{Setting: setting, Text: shown + ": " + err.Error(), Mend: HintFor(err)})
	}
	oneOf := func(setting, shown, text string, known []string) {
		if !slices.Contains(known, text) {
			add(setting, shown, fmt.Errorf("%q is none of %s", text, strings.Join(known, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		setting := "channels." + name
		if err := channels.CheckName(name); err != nil {
			add(setting, "channels", WithHint(err, "name channels like stable, beta or nightly-2"))
		}
		for n, target := range c.Channels[name].Targets {
			if _, err := manifest.ParseKey(target); err != nil {
				add(setting+".targets."+strconv.Itoa(n), setting+".targets", WithHint(err, "write keys of latest.json, such as windows-x86_64 or linux-x86_64-deb"))
			}
		}
		if err := GuardOf(c.Channels[name]).Check(); err != nil {
			add(setting+".guard", setting+".guard", WithHint(err, guardHint))
		}
	}
	for n, kind := range c.BundleTypes {
		oneOf("bundle_types."+strconv.Itoa(n), "bundle_types", kind, manifest.BundleTypes())
	}
	if c.WindowsInstaller != "" {
		oneOf("windows_installer", "windows_installer", c.WindowsInstaller, manifest.TypesOf("windows"))
	}
	return found
}

const guardHint = "write it like {failures: 2%, networks: 3}"

// checkKeys returns a mistake for each trusted key that can't be read or is not a public key. It
// never quotes a key, which may be private.
func checkKeys(c *config.Config) (found config.Mistakes) {
	for n, key := range c.TrustedKeys {
		text, err := trustedText(key)
		if err == nil {
			if _, err = signing.ParsePublicKey(text); err != nil {
				err = WithHint(err, mendTrusted)
			}
		}
		if err == nil {
			err = signing.Span{From: key.From, Until: key.Until}.Check()
		}
		if err != nil {
			found = append(found, config.Mistake{Setting: "trusted_keys." + strconv.Itoa(n), Text: fmt.Sprintf("trusted key %d: %v", n+1, err), Mend: HintFor(err)})
		}
	}
	if _, err := Keyring(c.TrustedKeys); err != nil && len(found) == 0 {
		found = append(found, config.Mistake{Setting: "trusted_keys", Text: err.Error(), Mend: HintFor(errors.Unwrap(err))})
	}
	return found
}

// Guards returns the guards of the channels. They judge releases by the given records.
func Guards(c *config.Config, records record.Store, now func() time.Time) *fleet.Guards {
	all := map[string]fleet.Guard{}
	for name, channel := range c.Channels {
		all[name] = GuardOf(channel)
	}
	return &fleet.Guards{Guards: all, Default: GuardOf(config.Channel{}), Records: records, Now: now}
}

// GuardOf returns the guard of a channel, with defaults.
func GuardOf(channel config.Channel) fleet.Guard {
	set := channel.Guard
	return fleet.Guard{Failures: float64(orDefault(set.Failures, config.DefaultFailures)), Networks: orDefault(set.Networks, config.DefaultNetworks)}
}

func orDefault[T any](set *T, otherwise T) T {
	if set != nil {
		return *set
	}
	return otherwise
}

// Judge returns the guard's judgment of the newest release of a channel. It fails with
// ErrNoRecords if there are no records on this machine.
func (a *App) Judge(ctx context.Context, c *config.Config, log *channels.Log) (opinion *fleet.Opinion, err error) {
	channel, err := fleet.ChannelOf(log)
	if err != nil {
		return nil, err
	}
	err = WithRecords(ctx, c, func(records record.Store) (err error) {
		guards := Guards(c, records, a.Now)
		if opinion, err = guards.Judge(ctx, log.Channel, channel); err == nil {
			err = guards.Split(ctx, opinion, channel)
		}
		return err
	})
	return opinion, err
}
