package manifest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsmon/manifest"
)

// files is a manifest whose keys lead to files, given as KEY=FILE.
func files(t testing.TB, version, text string) *manifest.Response {
	t.Helper()
	var members []string
	for pair := range strings.FieldsSeq(text) {
		key, file, _ := strings.Cut(pair, "=")
		members = append(members, fmt.Sprintf(`%q:{"signature":"s","url":"https://h/%s"}`, key, file))
	}
	return response(t, `{"version":"`+version+`","platforms":{`+strings.Join(members, ",")+`}}`)
}

// TestSuits follows install_inner of the plugin, by the names of files.
func TestSuits(t *testing.T) {
	for _, c := range []struct {
		target, kind, key, file string
		want                    error
	}{
		{"linux-x86_64", "deb", "linux-x86_64", "A.AppImage", manifest.ErrFormat},
		{"linux-x86_64", "deb", "linux-x86_64", "A.AppImage.tar.gz", manifest.ErrFormat},
		{"linux-x86_64", "deb", "linux-x86_64", "A.tar.gz", manifest.ErrFormat},
		{"linux-x86_64", "deb", "linux-x86_64", "download", manifest.ErrFormat},
		{"linux-x86_64", "deb", "linux-x86_64", "A.deb", nil},
		{"linux-x86_64", "deb", "linux-x86_64-deb", "A.deb", nil},
		{"linux-x86_64", "deb", "linux-x86_64-deb", "download", nil},
		{"linux-x86_64", "deb", "", "download", nil},
		{"linux-x86_64", "deb", "", "A.AppImage", manifest.ErrFormat},
		{"linux-x86_64", "rpm", "linux-x86_64", "A.deb", manifest.ErrFormat},
		{"linux-x86_64", "rpm", "linux-x86_64", "A.RPM", nil},
		{"linux-x86_64", "appimage", "linux-x86_64", "A.AppImage", nil},
		{"linux-x86_64", "appimage", "linux-x86_64", "download", nil},
		{"linux-x86_64", "appimage", "linux-x86_64", "A.deb", manifest.ErrFormat},
		{"linux-x86_64", "", "linux-x86_64", "A.deb", manifest.ErrFormat}, // a client that does not know installs an AppImage
		{"linux-x86_64", "unknown", "linux-x86_64", "A.AppImage", nil},
		{"linux-x86_64", "msi", "linux-x86_64", "A.AppImage", nil}, // no type of Linux
		{"windows-x86_64", "msi", "windows-x86_64", "A-setup.exe", manifest.ErrBeside},
		{"windows-x86_64", "msi", "windows-x86_64", "A.nsis.zip", manifest.ErrBeside},
		{"windows-x86_64", "msi", "windows-x86_64", "A.exe.zip", manifest.ErrBeside},
		{"windows-x86_64", "msi", "", "A-setup.exe", manifest.ErrBeside},
		{"windows-x86_64", "nsis", "windows-x86_64", "A.msi", manifest.ErrBeside},
		{"windows-x86_64", "nsis", "windows-x86_64", "A.msi.zip", manifest.ErrBeside},
		{"windows-x86_64", "msi", "windows-x86_64", "A.msi", nil},
		{"windows-x86_64", "msi", "windows-x86_64", "A.zip", nil}, // the name does not tell
		{"windows-x86_64", "msi", "windows-x86_64-msi", "A-setup.exe", nil},
		{"windows-x86_64", "", "windows-x86_64", "A.msi", nil},
		{"windows-x86_64", "msi", "windows-x86_64", "A.AppImage", manifest.ErrFormat},
		{"darwin-aarch64", "app", "darwin-aarch64", "A.app.tar.gz", nil},
		{"darwin-aarch64", "", "darwin-aarch64", "A.dmg", manifest.ErrFormat},
		{"plan9-mips", "deb", "plan9-mips", "A.AppImage", nil},
	} {
		client := manifest.Client{Target: c.target, BundleType: c.kind}
		for _, address := range []string{"https://h/FILE", "https://h/FILE?v=1", "https://h/a.AppImage/FILE#A.deb", "https://h/1%2e0/FILE", "https://h/A.deb/FILE/"} {
			err := client.Suits(c.key, manifest.Platform{URL: strings.Replace(address, "FILE", c.file, 1)})
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s (%s): %s in %s under %q: %v, want %v", c.target, c.kind, c.file, address, c.key, err, c.want)
			}
		}
	}
}

// TestNoFile: an address whose host only looks like a file tells nothing.
func TestNoFile(t *testing.T) {
	client := manifest.Client{Target: "linux-x86_64", BundleType: "deb"}
	for _, address := range []string{"https://example.rpm", "https://example.rpm/", "https://example.rpm?A.rpm", "https://h/?A.rpm", "A.rpm://h/x", "https://h/.rpm"} {
		if err := client.Suits("linux-x86_64-deb", manifest.Platform{URL: address}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestChoose(t *testing.T) {
	all := "linux-x86_64=A.AppImage linux-x86_64-deb=A.deb windows-x86_64=A-setup.exe windows-x86_64-nsis=A-setup.exe windows-x86_64-msi=A.msi"
	for _, c := range []struct {
		name, files, installed, target, kind string
		want                                 string // file; empty: nothing
		err                                  error
	}{
		{"deb", all, "1.0.0", "linux-x86_64", "deb", "A.deb", nil},
		{"rpm", all, "1.0.0", "linux-x86_64", "rpm", "", manifest.ErrUnfit},
		{"rpm that is up to date", all, "1.1.0", "linux-x86_64", "rpm", "", nil},
		{"AppImage", all, "1.0.0", "linux-x86_64", "appimage", "A.AppImage", nil},
		{"unknown", all, "1.0.0", "linux-x86_64", "unknown", "A.AppImage", nil},
		{"type of another system", all, "1.0.0", "linux-x86_64", "nsis", "A.AppImage", nil},
		{"msi", all, "1.0.0", "windows-x86_64", "msi", "A.msi", nil},
		{"msi, nsis alone", "windows-x86_64=A-setup.exe", "1.0.0", "windows-x86_64", "msi", "", manifest.ErrUnfit},
		{"nsis, msi alone", "windows-x86_64=A.msi", "1.0.0", "windows-x86_64", "nsis", "", manifest.ErrUnfit},
		{"msi under the plain key", "windows-x86_64=A.msi", "1.0.0", "windows-x86_64", "msi", "A.msi", nil},
		{"AppImage where there is a deb", "linux-x86_64-deb=A.deb", "1.0.0", "linux-x86_64", "appimage", "", manifest.ErrUnfit},
		{"no type where there is a deb", "linux-x86_64-deb=A.deb", "1.0.0", "linux-x86_64", "", "", manifest.ErrUnfit},
		{"another platform", all, "1.0.0", "linux-aarch64", "deb", "", manifest.ErrTarget},
		{"another platform, up to date", all, "1.1.0", "linux-aarch64", "", "", manifest.ErrTarget},
	} {
		offer, err := files(t, "1.1.0", c.files).Choose(manifest.Client{Version: c.installed, Target: c.target, BundleType: c.kind}, version(t, c.installed))
		got := ""
		if offer != nil {
			got = strings.TrimPrefix(offer.URL, "https://h/")
		}
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || errors.Is(err, manifest.ErrTarget) != (c.err == manifest.ErrTarget) {
			t.Errorf("%s: offered %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// TestNamedTarget: an application that sets target() looks up that key alone.
func TestNamedTarget(t *testing.T) {
	r := files(t, "1.1.0", "linux-x86_64=A.AppImage linux-x86_64-deb=A.deb")
	for named, want := range map[string]string{"": "A.deb", "linux-x86_64": "A.AppImage", "linux-x86_64-deb": "A.deb", "linux": "", "linux-x86_64-rpm": ""} {
		_, p, err := r.Lookup(manifest.Client{Target: "linux-x86_64", BundleType: "deb", Named: named})
		if strings.TrimPrefix(p.URL, "https://h/") != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, manifest.ErrTarget) {
			t.Errorf("target(%q) finds %q, %v", named, p.URL, err)
		}
	}
}

// TestDowngrades: with allowDowngrades an update is whatever differs.
func TestDowngrades(t *testing.T) {
	r := files(t, "1.0.0", "linux-x86_64=A.AppImage")
	for installed, want := range map[string]bool{"0.9.0": true, "1.0.0": false, "1.0.0+1": true, "1.1.0": true} {
		offer, err := r.OfferTo(manifest.Client{Version: installed, Target: "linux-x86_64", Downgrades: true})
		if err != nil || (offer != nil) != want {
			t.Errorf("%s is offered %+v, %v", installed, offer, err)
		}
	}
}
