package bundle

import (
	"path/filepath"
	"strings"
	"testing"

	"tsmon/manifest"
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
		{"App-1.2.3-1.x86_64.rpm", "linux-x86_64", "rpm", "1.2.3", ""},
		{"App_1.2.3_x64-setup.exe", "windows-x86_64", "nsis", "1.2.3", ""},
		{"App_1.2.3_x86-setup.exe", "windows-i686", "nsis", "1.2.3", ""},
		{"App_1.2.3_arm64-setup.exe", "windows-aarch64", "nsis", "1.2.3", ""},
		{"App_1.2.3_x64_en-US.msi", "windows-x86_64", "msi", "1.2.3", ""},
		{"App_1.2.3_x86_zh-Hant.msi", "windows-i686", "msi", "1.2.3", ""},
		{"App_1.2.3_arm64_en-US.msi", "windows-aarch64", "msi", "1.2.3", ""},
		{"App_1.2.3_i386.AppImage", "linux-i686", "appimage", "1.2.3", ""},
		{"App_1.2.3_aarch64.AppImage", "linux-aarch64", "appimage", "1.2.3", ""},
		{"App_1.2.3_armhf.AppImage", "linux-armv7", "appimage", "1.2.3", ""},
		{"App_1.2.3_i386.deb", "linux-i686", "deb", "1.2.3", ""},
		{"App_1.2.3_arm64.deb", "linux-aarch64", "deb", "1.2.3", ""},
		{"App_1.2.3_armhf.deb", "linux-armv7", "deb", "1.2.3", ""},
		{"App_1.2.3_armel.deb", "linux-armv7", "deb", "1.2.3", ""},
		{"App_1.2.3_riscv64.deb", "linux-riscv64", "deb", "1.2.3", ""},
		{"App-1.2.3-1.i386.rpm", "linux-i686", "rpm", "1.2.3", ""},
		{"App-1.2.3-1.aarch64.rpm", "linux-aarch64", "rpm", "1.2.3", ""},
		{"App-1.2.3-1.armhfp.rpm", "linux-armv7", "rpm", "1.2.3", ""},
		{"App-1.2.3-1.armel.rpm", "linux-armv7", "rpm", "1.2.3", ""},
		{"App-1.2.3-1.riscv64.rpm", "linux-riscv64", "rpm", "1.2.3", ""},
		{"My-App-1.2.3-beta.1-2.fc40.x86_64.rpm", "linux-x86_64", "rpm", "1.2.3-beta.1", ""},
		{"Water.Net_1.2.3_x64-setup.exe", "windows-x86_64", "nsis", "1.2.3", ""}, // GitHub turns spaces into dots
		{"target/i686-pc-windows-msvc/release/bundle/nsis/App-setup.exe", "windows-i686", "nsis", "", ""},
		{"target/aarch64-pc-windows-msvc/release/bundle/msi/App.msi", "windows-aarch64", "msi", "", ""},
		{"target/armv7-unknown-linux-gnueabihf/release/bundle/deb/App.deb", "linux-armv7", "deb", "", ""},
		{"target/arm-unknown-linux-gnueabi/release/bundle/deb/App.deb", "linux-armv7", "deb", "", ""},
		{"target/riscv64gc-unknown-linux-gnu/release/bundle/rpm/App.rpm", "linux-riscv64", "rpm", "", ""},
		{"x86_64-apple-darwin/dist/App.AppImage", "", "appimage", "", ""}, // of another system
		{"App-aarch64-apple-darwin/App.app.tar.gz", "darwin-aarch64", "app", "", "App_aarch64.app.tar.gz"},
		{"target/aarch64-apple-darwin/release/bundle/macos/The_Universal.app.tar.gz", "", "app", "", ""}, // which one?
		{"Universal.app.tar.gz", "", "app", "", ""},                                                      // the product's name
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
	for _, seed := range []string{"target/x86_64-apple-darwin/App.app.tar.gz", "App_1.2.3_x64_en-US.msi", "App-1.2.3-1.x86_64.rpm", "A_64-setup.exe", "İ_arm64.MSI.zip"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		k, ok := Recognize(path)
		if !ok {
			return
		}
		if k.stem+k.tail != filepath.Base(path) || k.stem == "" || strings.Contains(k.storeName(), "/") {
			t.Errorf("%q: %+v", path, k)
		}
		if k.Version != "" && (!IsVersion(k.Version) || !strings.Contains(path, k.Version)) {
			t.Errorf("%q: version %s", path, k.Version)
		}
		keys := targetsOf(k.Target)
		for _, target := range keys {
			if _, err := manifest.ParseKey(target + "-" + k.Type); k.Target != "" && err != nil {
				t.Errorf("%q: %v", path, err)
			}
		}
		again, ok := Recognize(Distinct(k.storeName(), "mark"))
		if !ok || again.Type != k.Type || again.OS != k.OS {
			t.Errorf("%q: its name with a mark is %+v", path, again)
		}
	})
}
