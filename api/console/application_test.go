package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/evanw/esbuild/pkg/api"
)

// tauriModules stand for what Tauri gives to a page: the plugin's check asks the server as
// the plugin does, and takes the bundle.
var tauriModules = map[string]string{
	"@tauri-apps/api/app":        `export const getVersion = async () => localStorage.getItem("version")`,
	"@tauri-apps/plugin-process": `export const relaunch = async () => { window.relaunched = true }`,
	"@tauri-apps/plugin-updater": `export const check = async ({ headers }) => {
		const answer = await fetch(server + "/updates/stable/linux/x86_64/" + localStorage.getItem("version") + "?bundle_type=appimage", { headers })
		if (answer.status === 204) return null
		const { version } = await answer.json()
		return { version, downloadAndInstall: async () => {
			if (window.broken) throw new Error("the disk is full")
			const got = await fetch(server + "/updates/releases/" + version + "/App_" + version + "_amd64.AppImage", { headers })
			if (!got.ok) throw new Error(got.status)
			await got.arrayBuffer()
			localStorage.setItem("version", version)
		} }
	}`,
}

// TestApplication runs what the guide has an application do in JavaScript, on a page with
// the origin of a desktop application: it is updated, and the server learns what became of
// the release.
func TestApplication(t *testing.T) {
	r := newReleasing(t, "")
	r.run(r.binary, "channel", "rollout", "stable", "--percent", "100", "--no-probe")
	r.serve()

	_, code, _ := strings.Cut(string(read(t, filepath.Join("..", "updates", "APPLICATION.md"))), "\n`src/updates.js`")
	_, code, _ = strings.Cut(code, "```js\n")
	code, _, found := strings.Cut(code, "```\n")
	if !found || !strings.Contains(code, "'https://updates.example.com'") {
		t.Fatal("the guide lacks src/updates.js")
	}
	code = strings.Replace(code, "'https://updates.example.com'", quote(r.base), 1)
	built := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: code, Loader: api.LoaderJS},
		Bundle: true, Format: api.FormatIIFE, GlobalName: "application", Target: api.ES2022,
		Banner: map[string]string{"js": "const server = " + quote(r.base) + ";"},
		Plugins: []api.Plugin{{Name: "tauri", Setup: func(b api.PluginBuild) {
			b.OnResolve(api.OnResolveOptions{Filter: "^@tauri-apps/"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
				return api.OnResolveResult{Path: a.Path, Namespace: "tauri"}, nil
			})
			b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "tauri"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
				code := tauriModules[a.Path]
				return api.OnLoadResult{Contents: &code}, nil
			})
		}}},
	})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/application.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(built.OutputFiles[0].Contents) // a browser that went away
			return
		}
		_, _ = w.Write([]byte(`<!doctype html><meta charset="utf-8"><title>Application</title><script src="/application.js"></script>`))
	}))
	t.Cleanup(pages.Close)
	const origin = "http://tauri.localhost" // of a desktop application on Windows
	chromium := startChromium(t, chromedp.Flag("host-resolver-rules", "MAP tauri.localhost:80 "+strings.TrimPrefix(pages.URL, "http://")))
	t.Cleanup(func() {
		if err := chromedp.Cancel(chromium); err != nil {
			t.Error(err)
		}
	})
	b := newTab(t, chromium, 400, 300)
	// start starts the application, which looks for an update; it returns the version that
	// is installed then.
	start := func() string {
		t.Helper()
		b.do(chromedp.Navigate(origin + "/"))
		b.until(`typeof application === "object"`)
		b.eval(`window.sent = [], window.fetch = (real => async (to, o) => {
			const answer = await real(to, o);
			if (String(to).endsWith("/updates/report")) sent.push(answer.status + " " + JSON.parse(o.body).event + " " + JSON.parse(o.body).version);
			return answer;
		})(fetch)`)
		b.eval(`window.broken = localStorage.getItem("broken") === "yes", window.ended = null, application.update().then(() => { ended = "well"; }, e => { ended = e.message; })`)
		b.until("ended !== null")
		return value[string](b, `localStorage.getItem("version") + ", ended " + ended + ", reported " + sent.join(", ")`)
	}
	b.do(chromedp.Navigate(origin + "/"))
	b.eval(`localStorage.setItem("version", "1.0.0"), localStorage.setItem("broken", "yes")`)
	for _, want := range []string{
		"1.0.0, ended the disk is full, reported 204 started 1.0.0, 204 failed 1.1.0",
		"1.1.0, ended well, reported 204 started 1.0.0, 204 installed 1.1.0",
		"1.1.0, ended well, reported 204 started 1.1.0",
	} {
		if got := start(); got != want {
			t.Errorf("%s; want %s", got, want)
		}
		b.eval(`localStorage.setItem("broken", "no")`)
	}
	var spread struct {
		Clients  int
		Versions []struct{ Version string }
	}
	b.enter(r, "")
	b.text("1 of 1 have it")
	if err := json.Unmarshal([]byte(r.run(r.binary, "channel", "adoption", "stable", "--json")), &spread); err != nil || spread.Clients != 1 || spread.Versions[0].Version != "1.1.0" {
		t.Errorf("%+v %v", spread, err)
	}
}
