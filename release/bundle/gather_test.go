package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a file and its folders.
func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// files makes a folder with the files of those names.
func files(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		write(t, filepath.Join(root, name), []byte(name))
	}
	return root
}

// The folders that `tauri build` leaves, by platform and createUpdaterArtifacts.
var (
	linuxTree = []string{
		"target/release/bundle/appimage/App_1.0.0_amd64.AppImage",
		"target/release/bundle/appimage/App.AppDir/usr/share/other_1.0.0_amd64.deb",
		"target/release/bundle/appimage/build_appimage.sh",
		"target/release/bundle/deb/App_1.0.0_amd64.deb",
		"target/release/bundle/deb/App_1.0.0_amd64/data/usr/lib/App/helper_1.0.0_amd64.AppImage",
		"target/release/bundle/rpm/App-1.0.0-1.x86_64.rpm",
	}
	linuxV1      = []string{"target/release/bundle/appimage/App_1.0.0_amd64.AppImage.tar.gz"}
	linuxArmTree = []string{
		"target/aarch64-unknown-linux-gnu/release/bundle/appimage/App_1.0.0_aarch64.AppImage",
		"target/aarch64-unknown-linux-gnu/release/bundle/deb/App_1.0.0_arm64.deb",
		"target/aarch64-unknown-linux-gnu/release/bundle/rpm/App-1.0.0-1.aarch64.rpm",
	}
	windowsTree = []string{
		"target/release/bundle/nsis/App_1.0.0_x64-setup.exe",
		"target/release/bundle/msi/App_1.0.0_x64_en-US.msi",
	}
	windowsV1 = []string{
		"target/release/bundle/nsis/App_1.0.0_x64-setup.nsis.zip",
		"target/release/bundle/msi/App_1.0.0_x64_en-US.msi.zip",
		"target/release/bundle/nsis-updater/App_1.0.0_x64-setup.exe", // with embedBootstrapper
		"target/release/bundle/msi-updater/App_1.0.0_x64_en-US.msi",
	}
	macTree = []string{
		"target/aarch64-apple-darwin/release/bundle/macos/App.app.tar.gz",
		"target/aarch64-apple-darwin/release/bundle/macos/App.app/Contents/Resources/other_1.0.0_x64.msi",
		"target/aarch64-apple-darwin/release/bundle/dmg/App_1.0.0_aarch64.dmg",
		"target/aarch64-apple-darwin/release/bundle/share/create-dmg/support/template.applescript",
	}
	universalTree = []string{
		"target/universal-apple-darwin/release/bundle/macos/App.app.tar.gz",
		"target/universal-apple-darwin/release/bundle/dmg/App_1.0.0_universal.dmg",
	}
)

func TestGather(t *testing.T) {
	for name, c := range map[string]struct {
		files    []string
		explicit []string // TARGET=FILE, FILE in the folder
		also     []string // FILE or KEY=FILE
		rules    *Rules
		want     []string // name: keys
		// downloads, unless nil, are KEY: NAME, and : NAME of a file without a key that
		// updates nobody
		downloads []string
		skipped   []string // parts of the reasons
	}{
		"Linux": {
			files: linuxTree,
			want: []string{"App-1.0.0-1.x86_64.rpm: linux-x86_64-rpm", "App_1.0.0_amd64.AppImage: linux-x86_64 linux-x86_64-appimage",
				"App_1.0.0_amd64.deb: linux-x86_64-deb"},
		},
		"Linux, v1Compatible": {
			files: slices.Concat(linuxTree, linuxV1),
			want: []string{"App-1.0.0-1.x86_64.rpm: linux-x86_64-rpm", "App_1.0.0_amd64.AppImage.tar.gz: linux-x86_64 linux-x86_64-appimage",
				"App_1.0.0_amd64.deb: linux-x86_64-deb"},
			downloads: []string{"linux-x86_64: App_1.0.0_amd64.AppImage", "linux-x86_64-appimage: App_1.0.0_amd64.AppImage",
				"linux-x86_64-deb: App_1.0.0_amd64.deb", "linux-x86_64-rpm: App-1.0.0-1.x86_64.rpm"},
		},
		"Linux, cross build": {
			files: linuxArmTree,
			want: []string{"App-1.0.0-1.aarch64.rpm: linux-aarch64-rpm", "App_1.0.0_aarch64.AppImage: linux-aarch64 linux-aarch64-appimage",
				"App_1.0.0_arm64.deb: linux-aarch64-deb"},
		},
		"Linux, no AppImage": {
			files: []string{"deb/App_1.0.0_amd64.deb"},
			want:  []string{"App_1.0.0_amd64.deb: linux-x86_64-deb"},
		},
		"Windows": {
			files: windowsTree,
			want:  []string{"App_1.0.0_x64-setup.exe: windows-x86_64 windows-x86_64-nsis", "App_1.0.0_x64_en-US.msi: windows-x86_64-msi"},
		},
		"Windows, MSI preferred": {
			files: windowsTree, rules: &Rules{WindowsInstaller: "msi"},
			want: []string{"App_1.0.0_x64-setup.exe: windows-x86_64-nsis", "App_1.0.0_x64_en-US.msi: windows-x86_64 windows-x86_64-msi"},
		},
		"Windows, MSI preferred and missing": {
			files: windowsTree[:1], rules: &Rules{WindowsInstaller: "msi"},
			want: []string{"App_1.0.0_x64-setup.exe: windows-x86_64 windows-x86_64-nsis"},
		},
		"Windows, MSI only": {
			files: windowsTree[1:],
			want:  []string{"App_1.0.0_x64_en-US.msi: windows-x86_64 windows-x86_64-msi"},
		},
		"Windows, v1Compatible": {
			files:     slices.Concat(windowsTree, windowsV1),
			want:      []string{"App_1.0.0_x64-setup.nsis.zip: windows-x86_64 windows-x86_64-nsis", "App_1.0.0_x64_en-US.msi.zip: windows-x86_64-msi"},
			skipped:   []string{"msi-updater/App_1.0.0_x64_en-US.msi was packed by the bundler", "nsis-updater/App_1.0.0_x64-setup.exe was packed by the bundler"},
			downloads: []string{"windows-x86_64: App_1.0.0_x64-setup.exe", "windows-x86_64-msi: App_1.0.0_x64_en-US.msi", "windows-x86_64-nsis: App_1.0.0_x64-setup.exe"},
		},
		"Windows, MSI in several languages": {
			files:     []string{"msi/App_1.0.0_x64_de-DE.msi", "msi/App_1.0.0_x64_en-US.msi", "msi/App_1.0.0_x64_es-ES.msi"},
			want:      []string{"App_1.0.0_x64_en-US.msi: windows-x86_64 windows-x86_64-msi"},
			downloads: []string{": App_1.0.0_x64_de-DE.msi", ": App_1.0.0_x64_es-ES.msi", "windows-x86_64: App_1.0.0_x64_en-US.msi", "windows-x86_64-msi: App_1.0.0_x64_en-US.msi"},
		},
		"Windows, a language that was chosen": {
			files: []string{"msi/App_1.0.0_x64_de-DE.msi", "msi/App_1.0.0_x64_en-US.msi"}, explicit: []string{"windows-x86_64=msi/App_1.0.0_x64_de-DE.msi"},
			want:      []string{"App_1.0.0_x64_de-DE.msi: windows-x86_64 windows-x86_64-msi"},
			downloads: []string{": App_1.0.0_x64_en-US.msi", "windows-x86_64: App_1.0.0_x64_de-DE.msi", "windows-x86_64-msi: App_1.0.0_x64_de-DE.msi"},
		},
		"macOS": {
			files: macTree, want: []string{"App_aarch64.app.tar.gz: darwin-aarch64 darwin-aarch64-app"},
			downloads: []string{"darwin-aarch64: App_1.0.0_aarch64.dmg", "darwin-aarch64-dmg: App_1.0.0_aarch64.dmg"},
		},
		"macOS, universal": {
			files: universalTree,
			want:  []string{"App_universal.app.tar.gz: darwin-aarch64 darwin-aarch64-app darwin-x86_64 darwin-x86_64-app"},
			downloads: []string{"darwin-aarch64: App_1.0.0_universal.dmg", "darwin-aarch64-dmg: App_1.0.0_universal.dmg",
				"darwin-x86_64: App_1.0.0_universal.dmg", "darwin-x86_64-dmg: App_1.0.0_universal.dmg"},
		},
		"macOS, universal beside one architecture": {
			files: slices.Concat(macTree, universalTree),
			want:  []string{"App_aarch64.app.tar.gz: darwin-aarch64 darwin-aarch64-app", "App_universal.app.tar.gz: darwin-x86_64 darwin-x86_64-app"},
			downloads: []string{"darwin-aarch64: App_1.0.0_aarch64.dmg", "darwin-aarch64-dmg: App_1.0.0_aarch64.dmg",
				"darwin-x86_64: App_1.0.0_universal.dmg", "darwin-x86_64-dmg: App_1.0.0_universal.dmg"},
		},
		"all that tauri-action uploads": {
			files: []string{"App_1.0.0_x64-setup.exe", "App_1.0.0_x64_en-US.msi", "App_1.0.0_amd64.AppImage", "App_1.0.0_amd64.deb", "App-1.0.0-1.x86_64.rpm",
				"App_aarch64.app.tar.gz", "App_x64.app.tar.gz", "App_1.0.0_aarch64.dmg", "App_1.0.0_x64.dmg", "latest.json"},
			want: []string{"App-1.0.0-1.x86_64.rpm: linux-x86_64-rpm", "App_1.0.0_amd64.AppImage: linux-x86_64 linux-x86_64-appimage",
				"App_1.0.0_amd64.deb: linux-x86_64-deb", "App_1.0.0_x64-setup.exe: windows-x86_64 windows-x86_64-nsis",
				"App_1.0.0_x64_en-US.msi: windows-x86_64-msi", "App_aarch64.app.tar.gz: darwin-aarch64 darwin-aarch64-app",
				"App_x64.app.tar.gz: darwin-x86_64 darwin-x86_64-app"},
		},
		"files that --also names": {
			files: []string{"App_1.0.0_amd64.AppImage", "portable/App_1.0.0_windows_x64.zip", "App-linux-x86_64.tar.gz", "notes.pdf", "App.dmg"},
			also:  []string{"portable/App_1.0.0_windows_x64.zip", "App-linux-x86_64.tar.gz", "notes.pdf", "darwin-universal=App.dmg"},
			want:  []string{"App_1.0.0_amd64.AppImage: linux-x86_64 linux-x86_64-appimage"},
			downloads: []string{": notes.pdf", "darwin-aarch64: App.dmg", "darwin-aarch64-dmg: App.dmg", "darwin-x86_64: App.dmg", "darwin-x86_64-dmg: App.dmg",
				"linux-x86_64: App_1.0.0_amd64.AppImage", "linux-x86_64-appimage: App_1.0.0_amd64.AppImage", "linux-x86_64-tar.gz: App-linux-x86_64.tar.gz",
				"windows-x86_64: App_1.0.0_windows_x64.zip", "windows-x86_64-zip: App_1.0.0_windows_x64.zip"},
		},
		"disk images that are left out": {
			files:   []string{"App_x64.app.tar.gz", "App_0.9.0_x64.dmg", "App_1.0.0.dmg", "rw.123.App_1.0.0_x64.dmg"},
			want:    []string{"App_x64.app.tar.gz: darwin-x86_64 darwin-x86_64-app"},
			skipped: []string{"App_0.9.0_x64.dmg is named version 0.9.0", "App_1.0.0.dmg does not name its architecture", "x64.dmg is an unfinished disk image"},
		},
		"a disk image in the folder of another architecture": {
			files:   []string{"App_x64.app.tar.gz", "target/aarch64-apple-darwin/App_1.0.0_x64.dmg"},
			want:    []string{"App_x64.app.tar.gz: darwin-x86_64 darwin-x86_64-app"},
			skipped: []string{"App_1.0.0_x64.dmg names another architecture than its folder; --also KEY=FILE says it"},
		},
		"older builds": {
			files: []string{"App_0.9.0_x64_en-US.msi", "App_1.0.0_x64_en-US.msi", "App-0.9.0-1.x86_64.rpm"},
			want:  []string{"App_1.0.0_x64_en-US.msi: windows-x86_64 windows-x86_64-msi"}, skipped: []string{"rpm is named version 0.9.0", "msi is named version 0.9.0"},
		},
		"types left out": {
			files: slices.Concat(linuxTree, windowsTree, macTree), rules: &Rules{Types: []string{"msi", "deb", "appimage"}},
			want: []string{"App_1.0.0_amd64.AppImage: linux-x86_64 linux-x86_64-appimage", "App_1.0.0_amd64.deb: linux-x86_64-deb",
				"App_1.0.0_x64_en-US.msi: windows-x86_64 windows-x86_64-msi", "App_aarch64.app.tar.gz: darwin-aarch64 darwin-aarch64-app"},
			downloads: []string{"darwin-aarch64: App_1.0.0_aarch64.dmg", "darwin-aarch64-dmg: App_1.0.0_aarch64.dmg", "linux-x86_64: App_1.0.0_amd64.AppImage",
				"linux-x86_64-appimage: App_1.0.0_amd64.AppImage", "linux-x86_64-deb: App_1.0.0_amd64.deb", "linux-x86_64-rpm: App-1.0.0-1.x86_64.rpm",
				"windows-x86_64: App_1.0.0_x64_en-US.msi", "windows-x86_64-msi: App_1.0.0_x64_en-US.msi", "windows-x86_64-nsis: App_1.0.0_x64-setup.exe"},
		},
		"equal names": {
			files: []string{"target/x86_64-unknown-linux-gnu/App.AppImage", "target/aarch64-unknown-linux-gnu/App.AppImage"},
			want: []string{"App_linux-aarch64.AppImage: linux-aarch64 linux-aarch64-appimage",
				"App_linux-x86_64.AppImage: linux-x86_64 linux-x86_64-appimage"},
		},
		"explicit": {
			files: []string{"windows.zip", "App.app.tar.gz", "linux.deb"}, explicit: []string{"windows-x86_64=windows.zip", "darwin-universal=App.app.tar.gz", "linux-x86_64=linux.deb"},
			want: []string{"App.app.tar.gz: darwin-aarch64 darwin-aarch64-app darwin-x86_64 darwin-x86_64-app", "linux.deb: linux-x86_64 linux-x86_64-deb", "windows.zip: windows-x86_64"},
		},
		"explicit, equal names": {
			files: []string{"a/Setup.exe", "b/Setup.exe"}, explicit: []string{"windows-x86_64=a/Setup.exe", "windows-aarch64=b/Setup.exe"},
			want: []string{"windows-aarch64_Setup.exe: windows-aarch64 windows-aarch64-nsis", "windows-x86_64_Setup.exe: windows-x86_64 windows-x86_64-nsis"},
		},
		"explicit, one file for two keys": {
			files: []string{"Setup.exe"}, explicit: []string{"windows-x86_64=Setup.exe", "windows-aarch64=Setup.exe"},
			want: []string{"Setup.exe: windows-aarch64 windows-aarch64-nsis windows-x86_64 windows-x86_64-nsis"},
		},
		"explicit beside found": {
			files: windowsTree, explicit: []string{"windows-x86_64=" + windowsTree[1]},
			want: []string{"App_1.0.0_x64-setup.exe: windows-x86_64-nsis", "App_1.0.0_x64_en-US.msi: windows-x86_64 windows-x86_64-msi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := files(t, c.files...)
			for i, pair := range c.explicit {
				target, file, _ := strings.Cut(pair, "=")
				c.explicit[i] = target + "=" + filepath.Join(root, file)
			}
			for i, text := range c.also {
				if key, file, ok := strings.Cut(text, "="); ok {
					c.also[i] = key + "=" + filepath.Join(root, file)
				} else {
					c.also[i] = filepath.Join(root, text)
				}
			}
			bundles, skipped, err := Gather("1.0.0", []string{root}, c.explicit, c.also, c.rules)
			if err != nil {
				t.Fatal(err)
			}
			if got := keysByName(bundles); !slices.Equal(got, c.want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
			}
			slices.Sort(c.downloads)
			if got := downloads(bundles); c.downloads != nil && !slices.Equal(got, c.downloads) {
				t.Errorf("downloads %s\nwant      %s", strings.Join(got, "\n          "), strings.Join(c.downloads, "\n          "))
			}
			if len(skipped) != len(c.skipped) {
				t.Errorf("skipped %q, want %q", skipped, c.skipped)
			}
			for _, part := range c.skipped {
				if !strings.Contains(strings.Join(skipped, "\n"), part) {
					t.Errorf("skipped %q, want %q", skipped, part)
				}
			}
		})
	}
}

// downloads returns KEY: NAME of what new users download, sorted.
func downloads(bundles []Bundle) (lines []string) {
	for _, b := range bundles {
		for _, key := range b.Downloads {
			lines = append(lines, key+": "+b.Name)
		}
		if b.Also && b.Downloads == nil {
			lines = append(lines, ": "+b.Name)
		}
	}
	slices.Sort(lines)
	return lines
}

// keysByName returns NAME: KEY… of updates, sorted.
func keysByName(bundles []Bundle) (lines []string) {
	for _, b := range bundles {
		if b.Also {
			continue
		}
		lines = append(lines, b.Name+": "+strings.Join(b.Keys, " "))
	}
	slices.Sort(lines)
	return lines
}

func TestGatherRefuses(t *testing.T) {
	root := files(t, "App_1.0.0_x64-setup.nsis.zip", "App_1.0.0_x64_de-DE.msi", "App_1.0.0_x64_fr-FR.msi", "App.app.tar.gz", "App.zip", "App.dmg", "a/App_1.0.0_amd64.AppImage",
		"b/App_1.0.0_amd64.AppImage", "old/App_0.9.0_amd64.AppImage.tar.gz", "deb/App_1.0.0_amd64.deb", "none/readme", "sig/App_1.0.0_amd64.deb", "sig/App_1.0.0_amd64.deb.sig/readme", "x86_64-apple-darwin/App_aarch64.app.tar.gz")
	empty := filepath.Join(root, "App_1.0.0_arm64_en-US.msi.zip")
	write(t, empty, nil)
	at := func(name string) string { return filepath.Join(root, name) }
	for name, c := range map[string]struct {
		paths, explicit, types []string
		want                   string
	}{
		"nothing there":         {paths: []string{at("none")}, want: "no bundle of version 1.0.0"},
		"only older":            {paths: []string{at("old")}, want: "is named version 0.9.0"},
		"no such path":          {paths: []string{at("nowhere")}, want: "no such file or folder: "},
		"two languages":         {paths: []string{at("App_1.0.0_x64_de-DE.msi"), at("App_1.0.0_x64_fr-FR.msi")}, want: "are both for windows-x86_64-msi"},
		"two of one type":       {paths: []string{at("a"), at("b")}, want: "are both for linux-x86_64-appimage"},
		"unknown name":          {paths: []string{at("App.zip")}, want: "is not named like an update bundle"},
		"disk image":            {paths: []string{at("App.dmg")}, want: "is for a first installation"},
		"no architecture":       {paths: []string{at("App.app.tar.gz")}, want: "does not name its architecture"},
		"two architectures":     {paths: []string{at("x86_64-apple-darwin/App_aarch64.app.tar.gz")}, want: "names another architecture than its folder"},
		"type left out":         {paths: []string{at("deb/App_1.0.0_amd64.deb")}, types: []string{"rpm"}, want: "which bundle_types leaves out"},
		"signature is a folder": {paths: []string{at("sig")}, want: ".sig is not a regular file"},
		"empty file":            {paths: []string{empty}, want: "is empty"},
		"other version":         {paths: []string{at("old/App_0.9.0_amd64.AppImage.tar.gz")}, want: "is named version 0.9.0"},
		"explicit without =":    {explicit: []string{"windows-x86_64"}, want: "is not TARGET=FILE"},
		"explicit key":          {explicit: []string{"win64=" + at("App.zip")}, want: "not a platform key"},
		"explicit form":         {explicit: []string{"linux-x86_64=" + at("App.zip")}, want: "can't be installed on linux-x86_64"},
		"explicit disk image":   {explicit: []string{"darwin-aarch64=" + at("App.dmg")}, want: "can't be installed on darwin-aarch64"},
		"explicit type":         {explicit: []string{"windows-x86_64-nsis=" + at("App_1.0.0_x64_de-DE.msi")}, want: "is not named like a bundle of type nsis"},
		"explicit missing file": {explicit: []string{"windows-x86_64=" + at("nowhere.zip")}, want: "no such file or folder: "},
		"explicit twice":        {explicit: []string{"windows-x86_64=" + at("App.zip"), "windows-x86_64=" + at("App_1.0.0_x64-setup.nsis.zip")}, want: "are both for windows-x86_64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Gather("1.0.0", c.paths, c.explicit, nil, &Rules{Types: c.types})
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Mend == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want a refusal with %q and a mend", err, c.want)
			}
		})
	}
}

// TestGatherContent: the content of a file decides where its name shows nothing.
func TestGatherContent(t *testing.T) {
	for name, c := range map[string]struct{ key, content, want string }{
		"AppImage":         {"linux-x86_64", "\x7fELF", "linux-x86_64 linux-x86_64-appimage"},
		"packed AppImage":  {"linux-x86_64", "\x1f\x8b", "linux-x86_64 linux-x86_64-appimage"},
		"deb":              {"linux-x86_64", "!<arch>\ndebian-binary", "linux-x86_64 linux-x86_64-deb"},
		"rpm":              {"linux-x86_64-rpm", "\xed\xab\xee\xdb", "linux-x86_64-rpm"},
		"nsis":             {"windows-aarch64", "MZ", "windows-aarch64 windows-aarch64-nsis"},
		"msi":              {"windows-x86_64", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "windows-x86_64 windows-x86_64-msi"},
		"zip":              {"windows-x86_64", "PK\x03\x04", "windows-x86_64"},
		"app":              {"darwin-universal", "\x1f\x8b", "darwin-aarch64 darwin-aarch64-app darwin-x86_64 darwin-x86_64-app"},
		"rpm for a deb":    {"linux-x86_64-deb", "\xed\xab\xee\xdb", ""},
		"exe on Linux":     {"linux-x86_64", "MZ", ""},
		"neither of these": {"windows-x86_64", "text", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "update.bin")
			write(t, path, append([]byte(c.content), make([]byte, 100)...))
			bundles, _, err := Gather("1.0.0", nil, []string{c.key + "=" + path}, nil, nil)
			switch {
			case c.want == "" && !errors.Is(err, ErrBundles):
				t.Errorf("got %v, %v, want ErrBundles", keysByName(bundles), err)
			case c.want != "" && (err != nil || strings.Join(bundles[0].Keys, " ") != c.want):
				t.Errorf("got %v, %v, want %s", keysByName(bundles), err, c.want)
			}
		})
	}
}

// TestGatherHint follows the hint of a refusal.
func TestGatherHint(t *testing.T) {
	root := files(t, "App_1.0.0_x64_de-DE.msi", "App_1.0.0_x64_fr-FR.msi")
	_, _, err := Gather("1.0.0", []string{root}, nil, nil, nil)
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("error %v, want a refusal", err)
	}
	_, pair, ok := strings.Cut(refusal.Mend, "--bundle ")
	bundles, _, err := Gather("1.0.0", []string{root}, []string{pair}, nil, nil)
	if !ok || err != nil || !slices.Equal(keysByName(bundles), []string{"App_1.0.0_x64_de-DE.msi: windows-x86_64 windows-x86_64-msi"}) {
		t.Errorf("%q leads to %v, %v", refusal.Mend, keysByName(bundles), err)
	}
}

// TestGatherArchitecture finds the architecture of a native macOS build, which no
// name contains, in its programs.
func TestGatherArchitecture(t *testing.T) {
	intel := machO(0x01000007)
	arm := machO(0x0100000c)
	both := binary.BigEndian.AppendUint32(nil, 0xcafebabe)
	both = binary.BigEndian.AppendUint32(both, 2)
	for _, cpu := range []uint32{0x01000007, 0x0100000c} {
		both = binary.BigEndian.AppendUint32(both, cpu)
		both = append(both, make([]byte, 16)...)
	}
	for name, c := range map[string]struct {
		programs map[string][]byte
		want     string
	}{
		"Apple silicon":             {map[string][]byte{"App.app/Contents/MacOS/App": arm}, "darwin-aarch64"},
		"Intel":                     {map[string][]byte{"./App.app/Contents/MacOS/App": intel}, "darwin-x86_64"},
		"both":                      {map[string][]byte{"App.app/Contents/MacOS/App": both}, "darwin-universal"},
		"a helper for one":          {map[string][]byte{"App.app/Contents/MacOS/App": both, "App.app/Contents/MacOS/helper": intel}, "darwin-x86_64"},
		"helpers that exclude":      {map[string][]byte{"App.app/Contents/MacOS/App": arm, "App.app/Contents/MacOS/helper": intel}, ""},
		"a script beside":           {map[string][]byte{"App.app/Contents/MacOS/App": arm, "App.app/Contents/MacOS/run.sh": []byte("#!/bin/sh\n")}, "darwin-aarch64"},
		"a program among resources": {map[string][]byte{"App.app/Contents/Resources/App": arm}, ""},
		"a shortened program":       {map[string][]byte{"App.app/Contents/MacOS/App": arm[:6]}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "target/release/bundle/macos/App.app.tar.gz")
			write(t, path, archive(t, c.programs))
			bundles, skipped, err := Gather("1.0.0", []string{filepath.Dir(path)}, nil, nil, nil)
			switch {
			case c.want == "" && (err == nil || len(skipped) != 1):
				t.Errorf("got %v, %v", bundles, skipped)
			case c.want != "" && (err != nil || bundles[0].Target != c.want):
				t.Errorf("got %v, %v, want %s", bundles, err, c.want)
			}
		})
	}
}

// machO returns the beginning of a program for one architecture.
func machO(cpu uint32) []byte {
	header := binary.LittleEndian.AppendUint32(nil, 0xfeedfacf)
	return append(binary.LittleEndian.AppendUint32(header, cpu), make([]byte, 1000)...)
}

// archive packs files as the bundler packs an application.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	w := tar.NewWriter(gz)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
