package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRecognize(t *testing.T) {
	for _, c := range []struct{ path, target, kind, version, store string }{
		{"App_1.2.3_x64_en-US.msi.zip", "windows-x86_64", "msi", "1.2.3", ""},
		{"App_1.2.3_x64-setup.nsis.zip", "windows-x86_64", "nsis", "1.2.3", ""},
		{"App_1.2.3_x64-setup.exe.zip", "windows-x86_64", "nsis", "1.2.3", ""},
		{"App_1.2.3_arm64-setup.nsis.zip", "windows-aarch64", "nsis", "1.2.3", ""},
		{"App_1.2.3_x86_en-US.msi.zip", "windows-i686", "msi", "1.2.3", ""},
		{"My App_1.2.3-beta.1_x64-setup.nsis.zip", "windows-x86_64", "nsis", "1.2.3-beta.1", ""},
		{"App_x64.app.tar.gz", "darwin-x86_64", "app", "", ""},
		{"App_1.2.3_x64.app.tar.gz", "darwin-x86_64", "app", "1.2.3", ""},
		{"App_aarch64.app.tar.gz", "darwin-aarch64", "app", "", ""},
		{"App_universal.app.tar.gz", "darwin-universal", "app", "", ""},
		{"App.app.tar.gz", "", "app", "", ""},
		{"target/x86_64-apple-darwin/release/bundle/macos/App.app.tar.gz", "darwin-x86_64", "app", "", "App_x64.app.tar.gz"},
		{"target/aarch64-apple-darwin/release/bundle/macos/App.app.tar.gz", "darwin-aarch64", "app", "", "App_aarch64.app.tar.gz"},
		{"target/universal-apple-darwin/release/bundle/macos/Red Agua ñ.app.tar.gz", "darwin-universal", "app", "", "Red Agua ñ_universal.app.tar.gz"},
		{"App_1.2.3_amd64.AppImage.tar.gz", "linux-x86_64", "appimage", "1.2.3", ""},
		{"App_1.2.3_aarch64.AppImage.tar.gz", "linux-aarch64", "appimage", "1.2.3", ""},
		{"App_1.2.3_armhf.AppImage.tar.gz", "linux-armv7", "appimage", "1.2.3", ""},
		{"App_1.2.3_amd64.AppImage", "linux-x86_64", "appimage", "1.2.3", ""},
		{"App_1.2.3_amd64.deb", "linux-x86_64", "deb", "1.2.3", ""},
		{"App-1.2.3-1.x86_64.rpm", "linux-x86_64", "rpm", "", ""},
		{"App_1.2.3_x64-setup.exe", "windows-x86_64", "nsis", "1.2.3", ""},
		{"App_1.2.3_x64_es-ES.msi", "windows-x86_64", "msi", "1.2.3", ""},
		{"x64_tools_1.2.3_arm64_en-US.msi.zip", "windows-aarch64", "msi", "1.2.3", ""}, // the last one counts
		{"App_universal.AppImage.tar.gz", "", "appimage", "", ""},                      // there is no universal Linux
	} {
		k, ok := Recognize(c.path)
		if !ok || k.Target != c.target || k.Type != c.kind || k.Version != c.version {
			t.Errorf("%s: %+v, %v; want %s %s %s", c.path, k, ok, c.target, c.kind, c.version)
		}
		if c.store == "" {
			c.store = filepath.Base(c.path)
		}
		if k.storeName() != c.store {
			t.Errorf("%s is stored as %s, want %s", c.path, k.storeName(), c.store)
		}
	}
	for _, path := range []string{"", "App.zip", "App.dmg", "latest.json", "App_1.2.3_x64.msi.zip.sig", ".msi.zip", "App.tar.gz", "setup.exe"} {
		if k, ok := Recognize(path); ok {
			t.Errorf("%q was recognised as %+v", path, k)
		}
	}
}

func FuzzRecognize(f *testing.F) {
	f.Add("target/x86_64-apple-darwin/App.app.tar.gz")
	f.Fuzz(func(t *testing.T, path string) {
		k, ok := Recognize(path)
		if ok && (k.Type == "" || k.OS == "" || strings.Contains(k.storeName(), "/")) {
			t.Errorf("%q: %+v", path, k)
		}
	})
}

// files makes a folder with the files of those names.
func files(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestGather(t *testing.T) {
	for name, c := range map[string]struct {
		files    []string
		explicit []string // TARGET=FILE, FILE in the folder
		types    []string
		want     string // name: keys, sorted by name
		skipped  int
	}{
		"bundler's folders": {
			files: []string{"x86_64-apple-darwin/macos/App.app.tar.gz", "aarch64-apple-darwin/macos/App.app.tar.gz", "msi/App_1.0.0_x64_en-US.msi.zip",
				"appimage/App_1.0.0_amd64.AppImage.tar.gz", "macos/App.app/Contents/other_1.0.0_x64.msi.zip", "dmg/App.dmg", "latest.json"},
			want: "App_1.0.0_amd64.AppImage.tar.gz: linux-x86_64; App_1.0.0_x64_en-US.msi.zip: windows-x86_64; App_aarch64.app.tar.gz: darwin-aarch64; App_x64.app.tar.gz: darwin-x86_64",
		},
		"universal": {files: []string{"App_universal.app.tar.gz"}, want: "App_universal.app.tar.gz: darwin-aarch64 darwin-x86_64"},
		"older builds aside": {
			files: []string{"App_0.9.0_x64_en-US.msi.zip", "App_1.0.0_x64_en-US.msi.zip"},
			want:  "App_1.0.0_x64_en-US.msi.zip: windows-x86_64", skipped: 1,
		},
		"installers aside": {
			files: []string{"App_1.0.0_x64-setup.exe", "App_1.0.0_amd64.deb", "App_1.0.0_amd64.AppImage.tar.gz"},
			want:  "App_1.0.0_amd64.AppImage.tar.gz: linux-x86_64", skipped: 2,
		},
		"allowed types": {
			files: []string{"App_1.0.0_amd64.deb", "App_1.0.0_amd64.AppImage.tar.gz", "App-1.0.0-1.x86_64.rpm"}, types: []string{"deb", "rpm"},
			want: "App-1.0.0-1.x86_64.rpm: linux-x86_64-rpm; App_1.0.0_amd64.AppImage.tar.gz: linux-x86_64; App_1.0.0_amd64.deb: linux-x86_64-deb",
		},
		"two archives, the preferred one is plain": {
			files: []string{"App_1.0.0_x64-setup.nsis.zip", "App_1.0.0_x64_en-US.msi.zip"}, types: []string{"nsis", "msi"},
			want: "App_1.0.0_x64-setup.nsis.zip: windows-x86_64 windows-x86_64-nsis; App_1.0.0_x64_en-US.msi.zip: windows-x86_64-msi",
		},
		"explicit": {
			files: []string{"windows.zip", "App.app.tar.gz"}, explicit: []string{"windows-x86_64=windows.zip", "darwin-universal=App.app.tar.gz"},
			want:    "App.app.tar.gz: darwin-aarch64 darwin-x86_64; windows.zip: windows-x86_64",
			skipped: 1,
		},
		"explicit beside found": {
			files: []string{"App_1.0.0_x64-setup.nsis.zip", "App_1.0.0_x64_en-US.msi.zip"}, explicit: []string{"windows-x86_64-msi=App_1.0.0_x64_en-US.msi.zip"},
			want: "App_1.0.0_x64-setup.nsis.zip: windows-x86_64; App_1.0.0_x64_en-US.msi.zip: windows-x86_64-msi",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := files(t, c.files...)
			for i, pair := range c.explicit {
				target, file, _ := strings.Cut(pair, "=")
				c.explicit[i] = target + "=" + filepath.Join(root, file)
			}
			bundles, skipped, err := Gather("1.0.0", []string{root}, c.explicit, c.types)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range bundles {
				got = append(got, b.Name+": "+strings.Join(slices.Sorted(slices.Values(b.Keys)), " "))
			}
			slices.Sort(got)
			if strings.Join(got, "; ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), c.want)
			}
			if len(skipped) != c.skipped {
				t.Errorf("skipped %q, want %d", skipped, c.skipped)
			}
		})
	}
}

func TestGatherRefuses(t *testing.T) {
	root := files(t, "App_1.0.0_x64-setup.nsis.zip", "App_1.0.0_x64_en-US.msi.zip", "App.app.tar.gz", "App.zip", "a/App_1.0.0_amd64.AppImage.tar.gz",
		"b/App_1.0.0_amd64.AppImage.tar.gz", "old/App_0.9.0_amd64.AppImage.tar.gz", "deb/App_1.0.0_amd64.deb", "none/readme")
	empty := filepath.Join(root, "App_1.0.0_arm64_en-US.msi.zip")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(root, name) }
	for name, c := range map[string]struct {
		paths, explicit, types []string
		want                   string
	}{
		"nothing there":         {paths: []string{at("none")}, want: "no bundle of version 1.0.0"},
		"only older":            {paths: []string{at("old")}, want: "is named version 0.9.0"},
		"no such path":          {paths: []string{at("nowhere")}, want: "does not exist"},
		"two for one target":    {paths: []string{at("App_1.0.0_x64-setup.nsis.zip"), at("App_1.0.0_x64_en-US.msi.zip")}, want: "are both for windows-x86_64"},
		"one name twice":        {paths: []string{at("a"), at("b")}, want: "would get the same name"},
		"unknown name":          {paths: []string{at("App.zip")}, want: "is not named like an update bundle"},
		"no architecture":       {paths: []string{at("App.app.tar.gz")}, want: "does not name its architecture"},
		"type not allowed":      {paths: []string{at("deb/App_1.0.0_amd64.deb")}, want: "which bundle_types does not allow"},
		"empty file":            {paths: []string{empty}, want: "is empty"},
		"other version":         {paths: []string{at("old/App_0.9.0_amd64.AppImage.tar.gz")}, want: "is named version 0.9.0"},
		"explicit without =":    {explicit: []string{"windows-x86_64"}, want: "is not TARGET=FILE"},
		"explicit key":          {explicit: []string{"win64=" + at("App.zip")}, want: "not a platform key"},
		"explicit form":         {explicit: []string{"linux-x86_64=" + at("App.zip")}, want: "is not an update archive for linux-x86_64"},
		"explicit plain deb":    {explicit: []string{"linux-x86_64=" + at("deb/App_1.0.0_amd64.deb")}, types: []string{"deb"}, want: "is not an update archive"},
		"explicit missing file": {explicit: []string{"windows-x86_64=" + at("nowhere.zip")}, want: "does not exist"},
		"explicit folder":       {explicit: []string{"windows-x86_64=" + root + ".zip"}, want: "does not exist"},
		"explicit twice":        {explicit: []string{"windows-x86_64=" + at("App.zip"), "windows-x86_64=" + at("App_1.0.0_x64_en-US.msi.zip")}, want: "are both for windows-x86_64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Gather("1.0.0", c.paths, c.explicit, c.types)
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Mend == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want a refusal with %q and a mend", err, c.want)
			}
		})
	}
}
