package release

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object/objecttest"
)

// parts are the bundles of four machines.
func (d *desk) parts(t *testing.T, version string) [][]bundle.Bundle {
	t.Helper()
	var all [][]bundle.Bundle
	for _, names := range [][]string{
		{"App_" + version + "_x64-setup.exe", "App_" + version + "_x64_en-US.msi"},
		{"App_" + version + "_amd64.AppImage", "App_" + version + "_amd64.deb"},
		{"App_aarch64.app.tar.gz"},
		{"App_universal.app.tar.gz"},
	} {
		all = append(all, d.options(t, version, names...).Bundles)
	}
	return all
}

func (d *desk) staging(version string, bundles []bundle.Bundle) StageOptions {
	return StageOptions{PublishOptions: PublishOptions{Options: Options{Channel: "stable"}, Version: version, Bundles: bundles, Unlock: d.unlock}}
}

func (d *desk) stage(t *testing.T, o StageOptions) *StageReport {
	t.Helper()
	report, err := d.Stage(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// take publishes the staged bundles.
func (d *desk) take(t *testing.T, version string) *Plan {
	t.Helper()
	return d.publish(t, PublishOptions{Options: Options{Channel: "stable"}, Version: version})
}

func (d *desk) sound(t *testing.T, channel string) {
	t.Helper()
	if report, err := d.Keeper().Verify(t.Context(), channel); err != nil || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// keysOf maps the platform keys of bundles to their digests.
func keysOf(bundles []library.Stored) map[string]string {
	keys := map[string]string{}
	for _, b := range bundles {
		for _, key := range b.Keys {
			keys[key] = b.BLAKE2b
		}
	}
	return keys
}

// TestStagedLikeGathered: bundles that several machines staged, in any order, get the same keys
// as from one folder.
func TestStagedLikeGathered(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {3, 0, 2, 1}} {
		d := newDesk(t)
		parts := d.parts(t, "1.0.0")
		for _, i := range order {
			d.stage(t, d.staging("1.0.0", parts[i]))
		}
		plan := d.take(t, "1.0.0")
		gathered, err := bundle.Merge(slices.Concat(parts...), nil)
		if err != nil {
			t.Fatal(err)
		}
		var whole []library.Stored
		for _, b := range gathered {
			whole = append(whole, library.Stored{Keys: b.Keys, BLAKE2b: digestOf(t, b.Path)})
		}
		staged, want := keysOf(plan.Bundles), keysOf(whole)
		if len(staged) != 10 || len(want) != 10 {
			t.Errorf("%d and %d keys, want 10", len(staged), len(want))
		}
		for key, digest := range want {
			if staged[key] != digest {
				t.Errorf("order %v: %s has another bundle", order, key)
			}
		}
		d.sound(t, "stable")
		d.sound(t, "beta")
	}
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	reader := bundle.Reader{Version: "1.0.0", Now: time.Now, Unlock: func() (signing.PrivateKey, error) { return signing.GenerateKey() }}
	bundles, _, err := bundle.Gather("1.0.0", []string{path}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	contents, err := reader.Read(t.Context(), bundles)
	if err != nil {
		t.Fatal(err)
	}
	stored := library.StoredOf(contents[0])
	return stored.BLAKE2b
}

// TestAddedTo: a release whose publish was interrupted before a channel showed it can
// be added to, but its bundles don't change until it is discarded.
func TestAddedTo(t *testing.T) {
	d := newDesk(t)
	store := d.Store
	stop := errors.New("stop")
	d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
		if strings.HasPrefix(key, "log/") {
			return readerFunc(func([]byte) (int, error) { return 0, stop })
		}
		return r
	}}
	o := d.options(t, "1.0.0", "App_1.0.0_x64-setup.exe")
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, stop) {
		t.Fatalf("error %v, want the interruption", err)
	}
	d.Store = store

	other := d.options(t, "1.0.0", "App_1.0.0_x64-setup.exe")
	appendTo(t, other.Bundles, ".exe")
	other = d.gathered(t, "1.0.0", filepath.Dir(other.Bundles[0].Path))
	if _, err := d.Publish(t.Context(), other); !errors.Is(err, library.ErrOtherBytes) {
		t.Errorf("publish: %v, want ErrOtherBytes", err)
	}
	if _, err := d.Stage(t.Context(), d.staging("1.0.0", other.Bundles)); !errors.Is(err, ErrStaged) {
		t.Errorf("stage: %v, want ErrStaged", err)
	}
	linux := d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage")
	report := d.stage(t, d.staging("1.0.0", linux.Bundles))
	if len(report.Warnings) != 1 {
		t.Errorf("warnings %q, want that a publish may be under way", report.Warnings)
	}
	if plan := d.take(t, "1.0.0"); len(plan.Bundles) != 2 || !plan.Changed {
		t.Errorf("%+v", plan)
	}
	d.sound(t, "stable")
	if _, ok := objecttest.Tree(t, d.Store)["releases/1.0.0/release-2.json"]; !ok {
		t.Error("there is no second record")
	}
	if _, err := d.Discard(t.Context(), "1.0.0"); !errors.Is(err, ErrShown) {
		t.Errorf("discard: %v, want ErrShown", err)
	}
}

// TestReplacedInComplete: replacing one target of a release whose publish was interrupted keeps
// the other targets, even if the replacement itself is interrupted at any moment.
func TestReplacedInComplete(t *testing.T) {
	d := newDesk(t)
	store, stop := d.Store, errors.New("stop")
	stopAt := func(prefix string) {
		d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
			if strings.HasPrefix(key, prefix) {
				return readerFunc(func([]byte) (int, error) { return 0, stop })
			}
			return r
		}}
	}
	o := d.options(t, "1.0.0", "App_1.0.0_x64-setup.exe", "App_1.0.0_x64_en-US.msi", "App_1.0.0_amd64.AppImage", "App_1.0.0_amd64.deb", "App_universal.app.tar.gz")
	o.Notes = "First."
	stopAt("log/")
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, stop) {
		t.Fatalf("error %v, want the interruption", err)
	}
	d.Store = store
	before, err := d.Library().Record(t.Context(), "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	windows := d.options(t, "1.0.0", "App_1.0.0_x64-setup.exe")
	appendTo(t, windows.Bundles, ".exe")
	windows = d.gathered(t, "1.0.0", filepath.Dir(windows.Bundles[0].Path))
	arm := d.options(t, "1.0.0", "App_aarch64.app.tar.gz")
	for _, job := range [][]bundle.Bundle{windows.Bundles, arm.Bundles} {
		again := d.staging("1.0.0", job)
		if _, err := d.Stage(t.Context(), again); !errors.Is(err, ErrStaged) {
			t.Fatalf("error %v, want ErrStaged", err)
		}
		again.Replace = true // as the hint says
		stopAt("staged/")
		if _, err := d.Stage(t.Context(), again); !errors.Is(err, stop) {
			t.Fatalf("error %v, want the interruption", err)
		}
		d.Store = store
		if report := d.stage(t, again); !report.Changed {
			t.Errorf("%+v", report)
		}
		if report := d.stage(t, again); report.Changed {
			t.Errorf("the same again: %+v", report)
		}
	}
	d.take(t, "1.0.0")
	record, err := d.Library().Record(t.Context(), "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	was, now := keysOf(before.Bundles), keysOf(record.Bundles)
	for _, key := range []string{"linux-x86_64", "linux-x86_64-deb", "darwin-x86_64"} {
		if now[key] == "" || now[key] != was[key] {
			t.Errorf("%s has another bundle than before: %s, %s", key, now[key], was[key])
		}
	}
	for _, key := range []string{"windows-x86_64", "windows-x86_64-nsis", "darwin-aarch64"} {
		if now[key] == "" || now[key] == was[key] {
			t.Errorf("%s has the bundle of before", key)
		}
	}
	if now["windows-x86_64-msi"] != "" || record.Notes != "First." {
		t.Errorf("%v, notes %q", now, record.Notes)
	}
	d.sound(t, "stable")
}

// TestDiscardDuringPublish: if a release is discarded during its publish and the channel still
// moves, the publish counts.
func TestDiscardDuringPublish(t *testing.T) {
	d := newDesk(t)
	rival := *d.Publisher
	o := d.options(t, "1.0.0")
	d.Store = &hooked{d.Store, func(key string, r io.Reader) io.Reader {
		if key == "log/stable/0000000001.json" {
			if done, err := rival.Discard(t.Context(), "1.0.0"); err != nil || !done.Record {
				t.Errorf("%+v, %v", done, err)
			}
		}
		return r
	}}
	d.publish(t, o)
	d.sound(t, "stable")
	if again := d.publish(t, o); again.Changed {
		t.Errorf("%+v", again)
	}
	if record, err := d.Library().Record(t.Context(), "1.0.0"); err != nil || record.Number != 1 {
		t.Errorf("%+v, %v", record, err)
	}
	if _, err := d.Discard(t.Context(), "1.0.0"); !errors.Is(err, ErrShown) {
		t.Errorf("%v, want ErrShown", err)
	}
}

// TestStagedTooLate: bundles that are staged while a publish moves the channel without them are
// refused, at whatever moment.
func TestStagedTooLate(t *testing.T) {
	for _, at := range []string{"release.json", "log/stable/0000000001.json"} {
		d := newDesk(t)
		d.Policies["stable"] = Policy{Targets: []string{"windows-x86_64"}}
		parts := d.parts(t, "1.0.0")
		d.stage(t, d.staging("1.0.0", parts[0]))
		late := *d.Publisher
		var err error
		d.Store = &hooked{d.Store, func(key string, r io.Reader) io.Reader {
			if strings.HasSuffix(key, at) {
				o := d.staging("1.0.0", parts[1])
				o.Publish = true
				_, err = late.Stage(t.Context(), o)
			}
			return r
		}}
		_, published := d.Publish(t.Context(), PublishOptions{Options: Options{Channel: "stable"}, Version: "1.0.0"})
		d.sound(t, "stable")
		log, logErr := d.Repository().Load(t.Context(), "stable")
		if logErr != nil || len(log.Entries) != 1 {
			t.Fatalf("%d entries, %v", len(log.Entries), logErr)
		}
		included := slices.Contains(log.Entries[0].Targets, "linux-x86_64")
		if included != (err == nil) || !included && published != nil {
			t.Errorf("at %s: included %v, yet the late job got %v, the other one %v", at, included, err, published)
		}
	}
}

// TestCompletedInOneSecond: if two jobs with the same name complete a release in the same
// second, exactly one reports that it moved the channel.
func TestCompletedInOneSecond(t *testing.T) {
	d := newDesk(t)
	d.Policies["stable"] = Policy{Targets: []string{"linux-x86_64"}}
	o := d.staging("1.0.0", d.options(t, "1.0.0").Bundles)
	o.Publish = true
	twin := *d.Publisher
	var first *StageReport
	d.Store = &hooked{d.Store, func(key string, r io.Reader) io.Reader {
		if key == "log/stable/0000000001.json" && first == nil {
			first = &StageReport{}
			report, err := twin.Stage(t.Context(), o)
			if err != nil {
				t.Error(err)
				return r
			}
			first = report
		}
		return r
	}}
	second := d.stage(t, o)
	if first == nil || first.Published == nil || !first.Published.Changed {
		t.Errorf("the first job: %+v", first)
	}
	if p := second.Published; p == nil || p.Changed || p.Sequence != 1 {
		t.Errorf("the second job: %+v", p)
	}
	d.sound(t, "stable")
}

// TestNotesAtOnce: if two jobs bring different notes at the same moment, chance does not decide
// between them.
func TestNotesAtOnce(t *testing.T) {
	d := newDesk(t)
	parts := d.parts(t, "1.0.0")
	rival := *d.Publisher
	d.Store = &hooked{d.Store, func(key string, r io.Reader) io.Reader {
		if strings.HasPrefix(key, "staged/1.0.0/windows") {
			o := d.staging("1.0.0", parts[1])
			o.Notes = "two"
			if _, err := rival.Stage(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		}
		return r
	}}
	o := d.staging("1.0.0", parts[0])
	o.Notes = "one"
	d.stage(t, o)
	publish := PublishOptions{Options: Options{Channel: "stable"}, Version: "1.0.0"}
	if _, err := d.Publish(t.Context(), publish); !errors.Is(err, ErrNotes) {
		t.Errorf("%v, want ErrNotes", err)
	}
	publish.Notes = "both" // as the hint says
	d.publish(t, publish)
	if record, err := d.Library().Record(t.Context(), "1.0.0"); err != nil || record.Notes != "both" {
		t.Errorf("%+v, %v", record, err)
	}
}

// TestSignedAgainStaged: staging the same bytes with a good signature replaces a bad one.
func TestSignedAgainStaged(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0", "App_1.0.0_x64-setup.exe")
	staged := d.staging("1.0.0", o.Bundles)
	trusted := d.Keys
	old := newDesk(t)
	d.Keys, staged.Unlock = append(slices.Clone(trusted), old.Keys...), old.unlock
	d.stage(t, staged)
	d.Keys = trusted
	if _, err := d.Publish(t.Context(), PublishOptions{Options: Options{Channel: "stable"}, Version: "1.0.0"}); !errors.Is(err, signing.ErrUntrustedKey) {
		t.Errorf("%v, want ErrUntrustedKey", err)
	}
	if report := d.stage(t, d.staging("1.0.0", o.Bundles)); !report.Changed {
		t.Errorf("%+v", report)
	}
	d.take(t, "1.0.0")
	d.sound(t, "stable")
}

// TestStagedOfAnotherHand: objects that were overwritten in staged/ or in the release's folder
// are not published. Staging again, or discarding, fixes that.
func TestStagedOfAnotherHand(t *testing.T) {
	d := newDesk(t)
	parts := d.parts(t, "1.0.0")
	d.stage(t, d.staging("1.0.0", parts[0]))
	put(t, d.Store, "staged/1.0.0/windows-x86_64/0002.json", "{}")
	publish := PublishOptions{Options: Options{Channel: "stable"}, Version: "1.0.0"}
	if _, err := d.Publish(t.Context(), publish); !errors.Is(err, library.ErrStored) {
		t.Errorf("%v, want ErrStored", err)
	}
	if _, err := d.Discard(t.Context(), "1.0.0"); err != nil {
		t.Fatal(err)
	}
	d.stage(t, d.staging("1.0.0", parts[0]))
	overwrite(t, filepath.Join(d.root, "releases/1.0.0/App_1.0.0_x64-setup.exe"))
	if _, err := d.Publish(t.Context(), publish); !errors.Is(err, library.ErrStored) {
		t.Errorf("%v, want ErrStored", err)
	}
	d.stage(t, d.staging("1.0.0", parts[0]))
	d.take(t, "1.0.0")
	d.sound(t, "stable")
}
