package release

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/manifest"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// signUnbound writes signatures that name no version, as `tauri signer sign` does,
// and gathers the bundles again.
func (d *desk) signUnbound(t *testing.T, o PublishOptions, key signing.PrivateKey) PublishOptions {
	t.Helper()
	for _, b := range o.Bundles {
		file, err := os.Open(b.Path)
		if err != nil {
			t.Fatal(err)
		}
		digest, _, err := signing.HashReader(t.Context(), file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		sig, err := key.Sign(digest, signing.Comment{Time: time.Now(), File: filepath.Base(b.Path)})
		if err == nil {
			err = os.WriteFile(b.Path+".sig", []byte(sig.String()), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return d.gathered(t, o.Version, filepath.Dir(o.Bundles[0].Path))
}

// signAgain binds the signatures to the version, as the hint of ErrUnbound says.
func (d *desk) signAgain(t *testing.T, o PublishOptions) PublishOptions {
	t.Helper()
	d.sign(t, o)
	return d.gathered(t, o.Version, filepath.Dir(o.Bundles[0].Path))
}

// TestUnboundPolicy: allow_unbound of a channel allows what --allow-unbound does.
func TestUnboundPolicy(t *testing.T) {
	d := newDesk(t)
	d.Policies["stable"] = Policy{AllowUnbound: true}
	d.Policies["strict"] = Policy{}
	d.publish(t, d.signUnbound(t, d.options(t, "1.0.0"), d.key))
	report := d.publish(t, d.signAgain(t, d.options(t, "1.1.0")))
	if len(report.Unbound) > 0 {
		t.Errorf("unbound: %v", report.Unbound)
	}
	if _, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}}); err != nil {
		t.Error(err)
	}
	promote := PromoteOptions{Options: Options{Channel: "strict"}, From: "stable"}
	if _, err := d.Promote(t.Context(), promote); !errors.Is(err, signing.ErrUnbound) {
		t.Errorf("error %v, want ErrUnbound", err)
	}
	d.Policies["strict"] = Policy{AllowUnbound: true}
	if _, err := d.Promote(t.Context(), promote); err != nil {
		t.Error(err)
	}
}

// TestUnboundFollower: a channel follows to a release that was allowed to be unbound.
func TestUnboundFollower(t *testing.T) {
	d := newDesk(t)
	o := d.signUnbound(t, d.options(t, "1.0.0"), d.key)
	o.AllowUnbound = true
	report := d.publish(t, o)
	if len(report.Followers) != 1 || report.Followers[0].Version != "1.0.0" || len(report.Followers[0].Unbound) == 0 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "allow_unbound: true for stable") {
		t.Errorf("followers %+v, warnings %q", report.Followers, report.Warnings)
	}
}

// failing is a store that fails to create objects with a prefix.
type failing struct {
	object.Store
	prefix string
}

var errFailing = errors.New("no")

func (f *failing) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if strings.HasPrefix(key, f.prefix) {
		return object.Info{}, errFailing
	}
	return f.Store.Create(ctx, key, r, size, attrs)
}

// TestSignedAgain: signatures that an interrupted publish left in the store can be replaced by
// better ones.
func TestSignedAgain(t *testing.T) {
	for name, prefix := range map[string]string{"before the record": "releases/1.0.0/release.json", "before the log": "log/"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			store := d.Store
			d.Store = &failing{store, prefix}
			o := d.options(t, "1.0.0")
			for range 3 { // each time with other signatures
				key, err := signing.GenerateKey()
				if err != nil {
					t.Fatal(err)
				}
				trusted := d.Keys
				d.Keys = signing.Keyring{{PublicKey: key.Public()}}
				o = d.signUnbound(t, o, key)
				o.AllowUnbound = true
				if _, err := d.Publish(t.Context(), o); !errors.Is(err, errFailing) {
					t.Fatalf("error %v, want errFailing", err)
				}
				d.Keys = trusted
			}
			d.Store = store
			before := objecttest.Tree(t, d.Store)
			if _, err := d.Publish(t.Context(), d.gathered(t, "1.0.0", filepath.Dir(o.Bundles[0].Path))); err == nil {
				t.Fatal("an untrusted signature was published")
			}
			o = d.signAgain(t, o)
			report := d.publish(t, o)
			if !report.Changed || len(report.Unbound) > 0 {
				t.Errorf("%+v", report)
			}
			for key, content := range objecttest.Tree(t, d.Store) {
				if was, ok := before[key]; ok && was != content && !strings.HasSuffix(key, "/release.json") {
					t.Errorf("%s has changed", key)
				}
			}
			verified, err := d.Keeper().Verify(t.Context(), "stable")
			if err != nil || verified.Findings.Err() != nil {
				t.Errorf("%v, %v", err, verified.Findings.Err())
			}
			if report := d.publish(t, o); report.Changed {
				t.Errorf("published twice: %+v", report)
			}
		})
	}
}

// TestSignedAgainAllowed: bound signatures replace unbound ones in the store even
// where unbound ones are allowed.
func TestSignedAgainAllowed(t *testing.T) {
	for _, prefix := range []string{"releases/1.0.0/release.json", "log/"} {
		d := newDesk(t)
		d.Policies["stable"] = Policy{AllowUnbound: true}
		store := d.Store
		d.Store = &failing{store, prefix}
		o := d.signUnbound(t, d.options(t, "1.0.0"), d.key)
		if _, err := d.Publish(t.Context(), o); !errors.Is(err, errFailing) {
			t.Fatalf("error %v, want errFailing", err)
		}
		d.Store = store
		if report := d.publish(t, d.signAgain(t, o)); len(report.Unbound) > 0 {
			t.Errorf("%s: unbound: %v", prefix, report.Unbound)
		}
	}
}

// TestSignedAgainShown: the record of a release that a channel has shown is final.
func TestSignedAgainShown(t *testing.T) {
	d := newDesk(t)
	o := d.signUnbound(t, d.options(t, "1.0.0"), d.key)
	o.AllowUnbound = true
	d.publish(t, o)
	before := objecttest.Tree(t, d.Store)
	again := d.signAgain(t, o)
	if _, err := d.Publish(t.Context(), again); !errors.Is(err, signing.ErrUnbound) {
		t.Errorf("error %v, want ErrUnbound", err)
	}
	again.AllowUnbound = true
	if report := d.publish(t, again); report.Changed {
		t.Errorf("%+v", report)
	}
	if after := objecttest.Tree(t, d.Store); len(after) != len(before) || after["releases/1.0.0/release.json"] != before["releases/1.0.0/release.json"] {
		t.Error("the release was changed")
	}
}

// TestCoverageOfTypes follows the hints about missing bundles of a Linux channel.
func TestCoverageOfTypes(t *testing.T) {
	d := newDesk(t)
	d.Policies["stable"] = Policy{Targets: []string{"linux-x86_64"}}
	packages := d.options(t, "1.0.0", "App_1.0.0_amd64.deb", "App_1.0.0_x64-setup.exe")
	_, err := d.Publish(t.Context(), packages)
	var refusal *Refusal
	if !errors.As(err, &refusal) || !errors.Is(err, gate.ErrMissing) {
		t.Fatalf("error %v, want gate.ErrMissing", err)
	}
	if want := "build an AppImage, list linux-x86_64-deb under targets instead of linux-x86_64, or say --allow-missing linux-x86_64"; refusal.Mend != want {
		t.Errorf("hint %q, want %q", refusal.Mend, want)
	}
	d.Policies["nightly"] = d.Policies["stable"]
	allowed := packages
	allowed.Channel, allowed.AllowMissing = "nightly", []string{"linux-x86_64"}
	d.publish(t, allowed)
	d.Policies["stable"] = Policy{Targets: []string{"linux-x86_64-deb"}}
	d.publish(t, packages)
	d.Policies["stable"] = Policy{Targets: []string{"linux-x86_64"}}
	report := d.publish(t, d.options(t, "1.1.0", "App_1.1.0_amd64.deb", "App_1.1.0_amd64.AppImage", "App_1.1.0_x64-setup.exe"))
	keys := []string{"linux-x86_64", "linux-x86_64-appimage", "linux-x86_64-deb", "windows-x86_64", "windows-x86_64-nsis"}
	if got := report.Entry.Targets; !slices.Equal(got, keys) {
		t.Errorf("keys %v, want %v", got, keys)
	}
	for _, kind := range []string{"deb", "appimage"} {
		response := manifest.Response{Platforms: report.Entry.Render(d.PublicURL).Platforms}
		if key, _, err := response.Lookup(manifest.Client{Target: "linux-x86_64", BundleType: kind}); err != nil || key != "linux-x86_64-"+kind {
			t.Errorf("%s gets %s, %v", kind, key, err)
		}
	}
	// A type that is required is asked for like a platform.
	d.Policies["typed"] = Policy{Targets: []string{"linux-x86_64", "linux-x86_64-deb"}}
	lone := d.options(t, "1.2.0", "App_1.2.0_amd64.AppImage")
	lone.Channel = "typed"
	if _, err := d.Publish(t.Context(), lone); !errors.As(err, &refusal) || !errors.Is(err, gate.ErrMissing) || !strings.HasSuffix(err.Error(), "typed would have no linux-x86_64-deb") {
		t.Fatalf("error %v, want that the type is missing", err)
	}
	if want := "add the bundles; if other machines build them, run `tsmon release stage --version 1.2.0 DIR` on each machine, then `tsmon release publish --version 1.2.0 --channel typed` without bundles; if nobody builds them, name under targets in tsmon.yaml what is built, typed: {targets: [linux-x86_64]}, as `tsmon init --targets linux-x86_64` writes it"; refusal.Mend != want {
		t.Errorf("hint %q, want %q", refusal.Mend, want)
	}
	both := d.options(t, "1.2.0", "App_1.2.0_amd64.AppImage", "App_1.2.0_amd64.deb")
	both.Channel = "typed"
	if report := d.publish(t, both); !slices.Contains(report.Entry.Targets, "linux-x86_64-deb") {
		t.Errorf("keys %v", report.Entry.Targets)
	}
}

// TestHugeSignature: an oversized signature is found, and written again.
func TestHugeSignature(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	key := library.BundleKey("1.0.0", "App_1.0.0_x64_en-US.msi.zip") + ".sig"
	d.leave(t, key, strings.Repeat("x", signing.MaxSignature+1))
	report, err := d.Keeper().Verify(t.Context(), "stable")
	if err != nil || len(report.Findings) != 1 || !errors.Is(report.Findings.Err(), library.ErrStored) {
		t.Fatalf("%+v, %v", report, err)
	}
	repaired, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
	if err != nil || len(repaired.Mended) != 1 || repaired.Mended[0].Object != key {
		t.Errorf("%+v, %v", repaired, err)
	}
	d.sound(t, "stable")
}
