package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/evanw/esbuild/pkg/api"
)

// TestUnits runs src/test/unit.ts in Chromium.
func TestUnits(t *testing.T) {
	folder, err := filepath.Abs("vendor-js")
	if err != nil {
		t.Fatal(err)
	}
	built := api.Build(api.BuildOptions{
		EntryPoints: []string{"src/test/unit.ts"}, Bundle: true, Format: api.FormatIIFE, Target: api.ES2022,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		Alias: map[string]string{
			"preact": folder + "/preact/preact.mjs", "preact/hooks": folder + "/preact/hooks.mjs",
			"preact/jsx-runtime": folder + "/preact/jsxRuntime.mjs", "uplot": folder + "/uplot/uPlot.esm.js",
		},
	})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unit.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(built.OutputFiles[0].Contents) // a browser that went away
			return
		}
		_, _ = w.Write([]byte(`<!doctype html><meta charset="utf-8"><script src="/unit.js"></script>`))
	}))
	t.Cleanup(pages.Close)
	b := newBrowser(t, 800, 600)
	b.do(chromedp.Navigate(pages.URL))
	b.until("Boolean(window.results)")
	var results struct {
		Checks   int
		Failures []string
	}
	if err := json.Unmarshal([]byte(value[string](b, "window.results")), &results); err != nil {
		t.Fatal(err)
	}
	for _, failure := range results.Failures {
		t.Error(failure)
	}
	if results.Checks < 60 {
		t.Errorf("only %d checks ran", results.Checks)
	}
}
