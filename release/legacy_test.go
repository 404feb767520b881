package release

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/signing"
)

// TestLegacySignature: a signature over the bytes themselves verifies on the way
// to the store, and from the store.
func TestLegacySignature(t *testing.T) {
	d := newDesk(t)
	public, err := os.ReadFile("testdata/minisign.pub")
	if err != nil {
		t.Fatal(err)
	}
	if d.Keys, err = signing.ParseKeyring([]string{string(public)}); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for from, to := range map[string]string{"bundle.tar.gz": "App_1.2.3_amd64.AppImage.tar.gz", "bundle.tar.gz.legacy.minisig": "App_1.2.3_amd64.AppImage.tar.gz.sig"} {
		data, err := os.ReadFile("testdata/" + from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, to), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := d.gathered(t, "1.2.3", folder)
	o.Unlock = nil
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, signing.ErrUnbound) {
		t.Fatalf("error %v, want ErrUnbound", err)
	}
	o.AllowUnbound = true
	report := d.publish(t, o)
	if !slices.Equal(report.Unbound, []string{"linux-x86_64", "linux-x86_64-appimage"}) {
		t.Errorf("unbound: %v", report.Unbound)
	}
	promote := PromoteOptions{Options: Options{Channel: "nightly", AllowUnbound: true}, From: "stable"}
	d.Policies["nightly"] = Policy{}
	if _, err := d.Promote(t.Context(), promote); err != nil {
		t.Error(err)
	}
	promote.AllowUnbound, d.Policies["other"], promote.Channel = false, Policy{}, "other"
	if _, err := d.Promote(t.Context(), promote); !errors.Is(err, signing.ErrUnbound) {
		t.Errorf("error %v, want ErrUnbound", err)
	}
}

// TestNewAddress: a changed public_url is published as a move of its own.
func TestNewAddress(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	d.publish(t, o)
	d.PublicURL = "https://cdn.example.com"
	report := d.publish(t, o)
	if !report.Changed || report.Sequence != 2 {
		t.Errorf("%+v", report)
	}
	shown, err := d.channels().Shown(t.Context(), "stable")
	if err != nil || !strings.Contains(string(shown), "https://cdn.example.com/releases/1.0.0/") {
		t.Errorf("%s, %v", shown, err)
	}
}
