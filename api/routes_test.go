package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tsmon/api"
	"tsmon/api/apitest"
)

func TestPrefixes(t *testing.T) { testPrefixes(t, apitest.Embedded(t)) }

func testPrefixes(t *testing.T, w *apitest.World) {
	server := w.Serve(t)
	ana, nobody := w.LogIn(t, server, w.Ana), apitest.Client{TB: t, Base: server.URL}
	for _, prefix := range []string{"", "/api"} {
		for path, method := range map[string]string{
			"/seriesDataTs": "POST", "/dataTs": "POST", "/multipleDataTs": "POST", "/getObjectCanva?id=1": "GET", "/saveDiagram": "POST",
			"/getVarsTs": "GET", "/getConfigNotify": "GET", "/sendConfigMQTT": "POST", "/getAllMenu": "GET",
			"/getPermission?id=1&type=id_user": "GET", "/indicatorCharts": "GET",
		} {
			if got := nobody.Send(method, prefix+path, nil, nil); got.Status != 401 {
				t.Errorf("%s%s without a token: %d", prefix, path, got.Status)
			}
			got := ana.Send(method, prefix+path, apitest.Raw("{}"), nil)
			if got.Status == 401 || got.Status == 404 || got.Status == 405 || got.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s%s: %d %v", prefix, path, got.Status, got.Header)
			}
		}
		for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
			if got := nobody.Get(prefix + path); got.Status != 200 {
				t.Errorf("%s%s: %d %.200s", prefix, path, got.Status, got.Body)
			}
		}
	}
}

func TestHealth(t *testing.T) { testHealth(t, apitest.Embedded(t)) }

func testHealth(t *testing.T, w *apitest.World) {
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	if got := nobody.Get("/healthz"); got.Status != 200 || string(got.Body) != "{\"status\":\"ok\"}\n" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	want := `{"status":"ok","concerns":{"monitoring":"ok","updates":"ok"},"backends":{"messages":"ok","objects":"ok","records":"ok","series":"ok","uploads":"ok"}}` + "\n"
	if got := nobody.Get("/readyz"); got.Status != 200 || string(got.Body) != want {
		t.Errorf("%d %s\n%s", got.Status, got.Body, w.Logged)
	}
	nobody.Get("/metrics").WantFailure(t, 403)
	own := api.New(w.Options)
	t.Cleanup(own.Close)
	metrics := httptest.NewServer(own.Metrics())
	t.Cleanup(metrics.Close)
	if response, err := http.Get(metrics.URL + "/metrics"); err != nil || response.StatusCode != 200 {
		t.Errorf("at an address of their own: %v, %v", response, err)
	}
	w.MetricsKey = "key-of-the-metrics"
	nobody.Base = w.Serve(t).URL
	nobody.Get("/readyz")
	nobody.Token = w.MetricsKey
	if got := nobody.Get("/metrics"); got.Status != 200 || !strings.Contains(string(got.Body), `tsmon_http_request_duration_seconds_count{method="GET",route="/readyz",status="200"} 1`) {
		t.Errorf("%d %.2000s", got.Status, got.Body)
	}
	nobody.Token = ""
	nobody.Get("/metrics").WantFailure(t, 403)
	nobody.Token = "another"
	nobody.Get("/metrics").WantFailure(t, 403)
	nobody.Token = w.MetricsKey
	if got := nobody.Get("/api/metrics"); got.Status != 200 {
		t.Errorf("with the key: %d", got.Status)
	}
}

// TestAllow: an address that does not take a method says which it takes.
func TestAllow(t *testing.T) {
	nobody := apitest.Client{TB: t, Base: apitest.Embedded(t).Serve(t).URL}
	for route, want := range map[string]string{
		"DELETE /loginPartner": "[POST]", "DELETE /api/getVarsTs": "[GET]", "DELETE /updates/stable/latest.json": "[GET HEAD]",
		"GET /updates/report": "[POST]", "OPTIONS /updates/report": "[POST]", "HEAD /api/updates/report": "[POST]",
	} {
		method, path, _ := strings.Cut(route, " ")
		got := nobody.Send(method, path, nil, nil)
		if method == "HEAD" && got.Status == 405 && len(got.Body) == 0 {
			continue // which has no body by its nature
		}
		got.WantFailure(t, 405)
		if allow := fmt.Sprint(got.Header.Values("Allow")); allow != want {
			t.Errorf("%s allows %s, want %s", route, allow, want)
		}
	}
}

func TestBrowsers(t *testing.T) { testBrowsers(t, apitest.Embedded(t)) }

func testBrowsers(t *testing.T, w *apitest.World) {
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	for origin, known := range map[string]bool{
		"https://scada.example.com": true, "tauri://localhost": true, "http://tauri.localhost": true, "https://tauri.localhost": true,
		"http://scada.example.com": false, "https://scada.example.com.evil.com": false, "null": false, "https://SCADA.example.com": false,
	} {
		for _, path := range []string{"/multipleDataTs", "/api/loginPartner"} {
			got := nobody.Send("OPTIONS", path, nil, http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"POST"},
				"Access-Control-Request-Headers": {"accept,accesskey,authorization,content-type,secretkey"}})
			allowed, credentials := got.Header.Get("Access-Control-Allow-Origin"), got.Header.Get("Access-Control-Allow-Credentials")
			if known != (allowed == origin && credentials == "true" && strings.Contains(got.Header.Get("Access-Control-Allow-Headers"), "authorization")) {
				t.Errorf("preflight of %s: %v", origin, got.Header)
			}
			got = nobody.Send("POST", path, apitest.Raw("{}"), http.Header{"Origin": {origin}})
			if known != (got.Header.Get("Access-Control-Allow-Origin") == origin && got.Header.Get("Access-Control-Allow-Credentials") == "true") ||
				!strings.Contains(got.Header.Get("Vary"), "Origin") {
				t.Errorf("%s from %s: %v", path, origin, got.Header)
			}
		}
	}
}
