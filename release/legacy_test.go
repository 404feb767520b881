package release

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// TestLegacySignature: a signature over the bytes themselves verifies on the way
// to the store, and from the store.
func TestLegacySignature(t *testing.T) {
	d := newDesk(t)
	public, err := os.ReadFile("testdata/minisign.pub")
	if err != nil {
		t.Fatal(err)
	}
	if d.Keys, err = signing.ParseKeyring([]signing.KeyText{{Key: string(public)}}); err != nil {
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

// TestNewAddress: after a change of public_url the log stays as it is, Verify says
// where the addresses lead, and the same move again renders the manifest anew.
func TestNewAddress(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	d.publish(t, o)
	before := objecttest.Tree(t, d.Store)
	d.PublicURL = "https://cdn.example.com"
	report, err := d.Keeper().Verify(t.Context(), "stable")
	if err != nil || len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Problem, "lead to https://releases.example.com/app, public_url is https://cdn.example.com") {
		t.Errorf("%+v, %v", report, err)
	}
	again := d.publish(t, o)
	if !again.Changed || again.Sequence != 1 || again.Entry != nil {
		t.Errorf("changed %v, entry %d", again.Changed, again.Sequence)
	}
	if report, err := d.Keeper().Verify(t.Context(), "stable"); err != nil || report.Findings.Err() != nil {
		t.Errorf("%+v, %v", report, err)
	}
	after := objecttest.Tree(t, d.Store)
	if !strings.Contains(after["stable/latest.json"], "https://cdn.example.com/releases/1.0.0/") {
		t.Error(after["stable/latest.json"])
	}
	delete(before, "stable/latest.json")
	delete(after, "stable/latest.json")
	sameTree(t, before, after)
	d.PublicURL = "" // it is not configured: any address will do
	if report, err := d.Keeper().Verify(t.Context(), "stable"); err != nil || report.Findings.Err() != nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestRecordOfAnotherHand: the log names the record of a release by its digest. Every move
// refuses a record that was overwritten, and Verify reports it.
func TestRecordOfAnotherHand(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	d.publish(t, o)
	d.publish(t, d.options(t, "1.1.0"))
	path := filepath.Join(d.root, "releases/1.0.0/release.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), `"notes": ""`, `"notes": "x"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Policies["nightly"] = Policy{}
	for name, move := range map[string]func() (*Plan, error){
		"rollback": func() (*Plan, error) { return d.rollback(t, "stable", "", "crashes") },
		"promote": func() (*Plan, error) {
			return d.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "nightly"}, From: "stable", Version: "1.0.0"})
		},
		"publish": func() (*Plan, error) {
			o.Channel = "nightly"
			return d.Publish(t.Context(), o)
		},
	} {
		if _, err := move(); !errors.Is(err, library.ErrStored) {
			t.Errorf("%s: %v, want ErrStored", name, err)
		}
	}
	report, err := d.Keeper().Verify(t.Context(), "stable")
	if err != nil || len(report.Findings) != 1 || !errors.Is(report.Findings.Err(), library.ErrStored) {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestTakenNames: if every name that a bundle could get is taken by other bytes, a higher
// version can be published.
func TestTakenNames(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage")
	file, err := os.Open(o.Bundles[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum, _, err := signing.HashReader(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	digest := hex.EncodeToString(sum[:])
	names := []string{"App_1.0.0_amd64.AppImage"}
	for length := 8; length <= len(digest); length += 8 {
		names = append(names, bundle.Distinct(names[0], digest[:length]))
	}
	for _, name := range names {
		if _, err := d.Store.Create(t.Context(), library.Folder("1.0.0")+name, strings.NewReader(name), int64(len(name)), object.Attributes{}); err != nil {
			t.Fatal(err)
		}
	}
	var refusal *Refusal
	// follows: publish a higher version
	if _, err := d.Publish(t.Context(), o); !errors.As(err, &refusal) || refusal.Mend != "publish a higher version" {
		t.Fatalf("error %v, want a refusal of a version whose names are taken", err)
	}
	d.publish(t, d.options(t, "1.0.1", "App_1.0.1_amd64.AppImage"))
	if got := d.shows(t, "stable"); got != "1.0.1" {
		t.Errorf("stable shows %s", got)
	}
}
