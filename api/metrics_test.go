package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/servertest"
)

// measured starts a server in the middle of a rollout, which has answered something of
// everything, and returns the address that shows its metrics. Clients of updates have asked
// the server before it.
func measured(t *testing.T) *httptest.Server {
	t.Helper()
	w := apitest.Embedded(t)
	w.Build.Version, w.Build.Commit = "1.2.3", "0123abcd"
	w.Rings = map[string]bool{"stable": false}
	desk := w.Desk(t)
	desk.PublishVersion(t, "stable", "1.0.0")
	desk.PublishWith(t, "1.1.0", func(o *release.PublishOptions) {
		o.Rollout = &channels.Rollout{Steps: []int{50}, Cohorts: []string{"internal"}}
	})
	before, nobody := watching(t, w)
	for _, id := range []string{"one", "two"} {
		nobody.Send("GET", "/updates/stable/linux/x86_64/1.0.0", nil, apitest.Insider(id))
	}
	before.Close()
	handler, nobody := watching(t, w)
	nobody.Get("/updates/releases/1.0.0/App_universal.app.tar.gz")
	nobody.Get("/updates/releases/1.0.0/App_universal.app.tar.gz.sig")
	nobody.Get("/updates/stable/linux/x86_64/0.9.0")
	nobody.Post("/loginPartner", w.Ana).Data(t)
	nobody.Post("/loginPartner", apitest.Raw("{")).WantFailure(t, 500) // which is no fault
	metrics := httptest.NewServer(handler.Metrics())
	t.Cleanup(metrics.Close)
	apitest.Eventually(t, "the clients are counted and shown", func() bool {
		text := scrape(t, metrics)
		return !slices.ContainsFunc([]string{
			`tsmon_updates_clients{channel="stable",cohort="internal",target="linux-x86_64",version="1.0.0"} 2`,
			`tsmon_updates_newest_clients{channel="stable",outcome="offered",version="1.1.0"} 2`,
			`tsmon_updates_rollout_full{channel="stable"} 0`, "\ntsmon_updates_events_total{",
		}, func(want string) bool { return !strings.Contains(text, want) })
	})
	return metrics
}

// watching starts a server, which reads the channels, and waits until it shows one.
func watching(t *testing.T, w *apitest.World) (*api.Server, apitest.Client) {
	t.Helper()
	handler := api.New(w.Options)
	server := httptest.NewServer(handler.Handler())
	t.Cleanup(func() {
		server.Close()
		handler.Close()
	})
	handler.Watch(t.Context())
	nobody := apitest.Client{TB: t, Base: server.URL}
	apitest.Eventually(t, "the release", func() bool { return nobody.Get("/updates/stable/latest.json").Status == http.StatusOK })
	return handler, nobody
}

func scrape(t *testing.T, metrics *httptest.Server) string {
	t.Helper()
	_, text := servertest.Fetch(t, http.MethodGet, metrics.URL+"/metrics", nil)
	return text
}

// TestMetrics: what an alert or a graph counts is there before it happens, and bundles
// are apart from manifests.
func TestMetrics(t *testing.T) {
	text := scrape(t, measured(t))
	for _, want := range []string{
		"tsmon_http_faults_total 0",
		`tsmon_build_info{commit="0123abcd",go="go`, `tsmon_backend_up{backend="series",concern="monitoring"} 1`, `tsmon_backend_up{backend="objects",concern="updates"} 1`,
		`tsmon_logins_total{result="refused"} 0`, `tsmon_logins_total{result="ok"} 1`, `tsmon_webhook_messages_total{result="given_up"} 0`,
		`tsmon_updates_bad_manifests_total{channel="stable"} 0`, `tsmon_updates_alarms{channel="stable",kind="history"} 0`, `tsmon_updates_alarms{channel="",kind="record"} 0`, `tsmon_series_query_duration_seconds_count{outcome="failed",question="current"} 0`,
		`route="/updates/{channel}/latest.json"`, `route="/updates/releases/{version}/{bundle}"`, `route="/updates/releases/{version}/{file}"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestMetricConventions asks promtool.
func TestMetricConventions(t *testing.T) {
	promtool := servertest.Find(t, "", "promtool", "install prometheus")
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(scrape(t, measured(t)))
	if output, err := check.CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("%v: %s", err, output)
	}
	for _, args := range [][]string{{"check", "rules", "prometheus/alerts.yaml"}, {"test", "rules", "prometheus/alerts_test.yaml"}} {
		if output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, output)
		}
	}
}

// TestMetricsOfAlertsExist: alerts and the dashboard name no metric that does not exist.
func TestMetricsOfAlertsExist(t *testing.T) {
	text := scrape(t, measured(t))
	name := regexp.MustCompile(`\b(tsmon|process)_[a-z_]+\b`)
	for _, file := range []string{"prometheus/alerts.yaml", "prometheus/dashboard.json"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := name.FindAllString(string(content), -1)
		for _, n := range names {
			if !strings.Contains(text, "\n"+n) {
				t.Errorf("%s: there is no %s", file, n)
			}
		}
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
	}
}

// TestPrometheus has a real Prometheus scrape a server, evaluate the alerts and answer
// what the dashboard asks.
func TestPrometheus(t *testing.T) {
	metrics := measured(t)
	prometheus := servertest.StartPrometheus(t, strings.TrimPrefix(metrics.URL, "http://"), "prometheus/alerts.yaml")
	ask := func(path string, into any) {
		t.Helper()
		_, text := servertest.Fetch(t, http.MethodGet, prometheus.URL+path, nil)
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v: %s", path, err, text)
		}
	}
	query := func(expression string) (values int, problem string) {
		var answer struct {
			Error string
			Data  struct{ Result []any }
		}
		ask("/api/v1/query?query="+url.QueryEscape(expression), &answer)
		return len(answer.Data.Result), answer.Error
	}
	apitest.Eventually(t, "a scrape", func() bool {
		n, _ := query(`up{job="tsmon"} == 1 and on (instance) tsmon_backend_up{backend="records"} == 1`)
		return n == 1
	})
	apitest.Eventually(t, "an evaluation of every alert", func() bool {
		var rules struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		ask("/api/v1/rules", &rules)
		evaluated := 0
		for _, group := range rules.Data.Groups {
			for _, r := range group.Rules {
				if r.LastError != "" {
					t.Fatalf("%s: %s", r.Name, r.LastError)
				}
				if r.Health == "ok" {
					evaluated++
				}
			}
		}
		return evaluated >= 10
	})
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	content, err := os.ReadFile("prometheus/dashboard.json")
	if err == nil {
		err = json.Unmarshal(content, &board)
	}
	if err != nil || len(board.Panels) < 10 {
		t.Fatalf("%d panels: %v", len(board.Panels), err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			apitest.Eventually(t, panel.Title+" has values", func() bool { // a rate needs two scrapes
				n, problem := query(expression)
				if problem != "" {
					t.Fatalf("%s: %s", panel.Title, problem)
				}
				return n > 0
			})
		}
	}
	if n, problem := query(fmt.Sprintf("tsmon_build_info{version=%q}", "1.2.3")); n != 1 {
		t.Errorf("the build: %d, %s", n, problem)
	}
}
