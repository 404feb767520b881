package release

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/signing"
)

// PublishOptions say what is published.
type PublishOptions struct {
	Options
	Version string
	Notes   string
	Extra   manifest.Extra      // kept in the record
	Bundles []Bundle            // of Gather
	Key     *signing.PrivateKey // signs the bundles that have no signature; may be nil
}

// Publish uploads a release and moves a channel to it. The same call again
// finishes what an interrupted one began, or does nothing. Errors are a *Refusal,
// a *channels.ConflictError, those of signing, or the store's.
func (p *Publisher) Publish(ctx context.Context, o PublishOptions) (*Report, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	policy, err := p.policy(o.Channel)
	if err != nil {
		return nil, err
	}
	if err := p.checkBundles(o); err != nil {
		return nil, err
	}
	log, err := p.channels().Load(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	m := &move{channel: o.Channel, policy: policy, log: log, allowMissing: o.AllowMissing, allowUnbound: o.AllowUnbound}
	if m.before, err = p.predecessor(ctx, log); err != nil {
		return nil, err
	}
	if err := m.forward(o.Version); err != nil {
		return nil, err
	}
	if err := m.partly(o.Rollout); err != nil {
		return nil, err
	}
	if err := m.willCover(o.Bundles); err != nil {
		return nil, err
	}
	record, err := p.bring(ctx, m, o)
	if err != nil {
		return nil, err
	}
	m.manifest = p.manifestOf(record)
	report := &Report{Action: channels.Publish, Bundles: record.Bundles}
	report.Warnings = append(report.Warnings, p.begin(m, o.Rollout)...)
	if o.Extra != record.Extra {
		report.Warnings = append(report.Warnings, "--watershed, --minimum-version or --critical differ from what "+o.Version+" was published with, which stays")
	}
	if o.Notes != "" && o.Notes != record.Notes {
		report.Warnings = append(report.Warnings, "the notes differ from those that "+o.Version+" was published with, which stay")
	}
	report, err = p.advance(ctx, m, channels.Entry{Action: channels.Publish, Why: o.Why}, o.Options, report)
	return p.finish(ctx, report, err)
}

// checkBundles judges all that can be judged before a byte is read.
func (p *Publisher) checkBundles(o PublishOptions) error {
	if _, err := manifest.ParseVersion(o.Version); err != nil {
		return &Refusal{Cause: err, Mend: "write MAJOR.MINOR.PATCH, such as 1.4.0"}
	}
	if o.Key != nil {
		public := o.Key.Public()
		if trusted, ok := p.Keys.Find(public.ID()); !ok || trusted != public {
			return &Refusal{Cause: signing.ErrUntrustedKey, Text: "the private key " + public.ID() + " is not among trusted_keys",
				Mend: "sign with a key that installed applications trust, or add its public key to trusted_keys"}
		}
	}
	for _, b := range o.Bundles {
		if err := p.checkBundle(o, b); err != nil {
			return err
		}
	}
	return errors.Join(checkNotes(o.Notes), checkExtra(o.Version, o.Extra))
}

// checkExtra refuses a minimum that the release itself does not reach.
func checkExtra(version string, extra manifest.Extra) error {
	if extra.MinimumVersion == "" {
		return nil
	}
	minimum, err := manifest.ParseVersion(extra.MinimumVersion)
	if err != nil {
		return &Refusal{Cause: err, Text: "--minimum-version", Mend: "write MAJOR.MINOR.PATCH, such as 1.2.0"}
	}
	if v, err := manifest.ParseVersion(version); err == nil && minimum.Compare(v) > 0 {
		return refuse(ErrConfig, "name a version that clients can have", "the minimum version %s is above %s", minimum, version)
	}
	return nil
}

// MaxNotes bounds release notes, in bytes, so that the manifest stays small.
const MaxNotes = 128 << 10

func checkNotes(notes string) error {
	switch {
	case len(notes) > MaxNotes:
		return refuse(ErrNotes, "shorten them, and link to the rest", "%d bytes long, at most %d are allowed", len(notes), MaxNotes)
	case !utf8.ValidString(notes) || strings.ContainsRune(notes, utf8.RuneError):
		return refuse(ErrNotes, "write them as UTF-8", "they hold characters that were lost")
	}
	return nil
}

func (p *Publisher) checkBundle(o PublishOptions, b Bundle) error {
	if b.Signature == nil {
		if o.Key == nil {
			return refuse(ErrUnsigned, "give the key in TAURI_SIGNING_PRIVATE_KEY or with --key FILE, or sign before with `tsmon release sign`",
				"%s has no .sig beside it", b.Path)
		}
		return nil
	}
	if _, err := p.checkSignature(b.Signature.String(), o.Version, b.Keys, o.AllowUnbound); err != nil {
		return fmt.Errorf("%s.sig: %w", b.Path, err)
	}
	return nil
}

// forward refuses what does not move the channel forward.
func (m *move) forward(version string) error {
	v, err := manifest.ParseVersion(version)
	if err != nil {
		return &Refusal{Cause: err, Mend: "write MAJOR.MINOR.PATCH, such as 1.4.0"}
	}
	if v.Prerelease() != "" && !m.policy.Prerelease {
		return refuse(ErrPrerelease, "publish it to a channel with prerelease: true, such as beta", "%s on %s", version, m.channel)
	}
	if m.before == nil {
		return nil
	}
	newest := m.before.Version
	if head := m.log.Head(); head != nil {
		if newest, err = manifest.ParseVersion(head.Newest()); err != nil {
			return err
		}
	}
	order := v.Compare(newest)
	if order < 0 {
		return refuse(ErrBelowHead, "publish a higher version; `tsmon release rollback --to` goes back", "%s shows %s, above %s", m.channel, newest, version)
	}
	if back := m.log.RolledBack(version); back != nil && order > 0 {
		return refuse(ErrRolledBack, fmt.Sprintf("publish a higher version, or bring it back with `tsmon release rollback --channel %s --to %s --reason TEXT`", m.channel, version),
			"%s left %s with entry %d by %s: %s", version, m.channel, back.Sequence, back.Who, back.Why)
	}
	return nil
}

// willCover refuses missing platforms before a byte is sent.
func (m *move) willCover(bundles []Bundle) error {
	m.manifest.Platforms = map[string]manifest.Platform{}
	for _, b := range bundles {
		for _, key := range b.Keys {
			m.manifest.Platforms[key] = manifest.Platform{}
		}
	}
	return m.covers()
}

// bring sees to it that the release is in the store: it compares the bundles
// with a record that stands, or uploads them and, once the manifest that m would
// come to has passed the gate, creates the record.
func (p *Publisher) bring(ctx context.Context, m *move, o PublishOptions) (*Record, error) {
	standing, err := p.Record(ctx, o.Version)
	published := err == nil
	if err != nil && !errors.Is(err, ErrNoRelease) {
		return nil, err
	}
	sink := p.upload(o.Version)
	if published || o.DryRun {
		sink = discard
		p.step("reading %d bundles", len(o.Bundles))
	} else {
		p.step("uploading %d bundles", len(o.Bundles))
	}
	stored, err := p.stage(ctx, o.Version, o.Bundles, o.Key, sink)
	if err != nil {
		return nil, err
	}
	switch {
	case published:
		if err := sameBundles(stored, standing); err != nil {
			return nil, err
		}
		p.step("%s is in the store already", o.Version)
		if err := p.verifyStored(ctx, standing, o.AllowUnbound); err != nil || o.DryRun || m.log.Head() != nil {
			return standing, err
		}
		return standing, p.checkStore(ctx, o.Version)
	case o.DryRun:
		return p.recordOf(o, stored), nil
	}
	for i := range stored {
		if err := p.storeSignature(ctx, o.Version, &stored[i], o.AllowUnbound); err != nil {
			return nil, err
		}
	}
	record := p.recordOf(o, stored)
	m.manifest = p.manifestOf(record)
	if _, err := p.replay(m); err != nil {
		return nil, err
	}
	if record, err = p.createRecord(ctx, record); err != nil {
		return nil, err
	}
	return record, p.checkStore(ctx, o.Version)
}

// Build returns the manifest of bundles without publishing anything; baseURL is
// the address of the folder that they will be in.
func (p *Publisher) Build(ctx context.Context, o PublishOptions, baseURL string) (*manifest.Manifest, error) {
	if len(p.Keys) == 0 {
		return nil, p.noKeys()
	}
	if err := p.checkBundles(o); err != nil {
		return nil, err
	}
	stored, err := p.stage(ctx, o.Version, o.Bundles, o.Key, discard)
	if err != nil {
		return nil, err
	}
	m := p.recordOf(o, stored).Manifest(baseURL)
	return &m, nil
}
