package api_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/monitor/mqtt"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// needs are the back ends that a route asks, once its user is remembered.
var needs = map[string]string{
	"/loginPartner": "records.Tenant", "/seriesDataTs": "series.Series", "/dataTs": "series.Current", "/multipleDataTs": "series.Current",
	"/getObjectCanva": "records.Diagram", "/saveDiagram": "records.SaveDiagram", "/getVarsTs": "records.Variables", "/getConfigNotify": "records.NotifyConfig",
	"/sendConfigMQTT": "messages.Publish", "/getAllMenu": "records.Menus", "/getPermission": "records.Permissions", "/indicatorCharts": "records.Charts",
	"/updates/releases/1.0.0/a.zip": "objects.Get", "/uploads/0123456789abcdef0123456789abcdef.png": "objects.Get", "/upload": "objects.Create",
}

// askers are a request for each route, and what it answers while all is well.
func askers(t *testing.T, w *apitest.World) []apitest.Route {
	t.Helper()
	for _, key := range []string{"releases/1.0.0/a.zip", "uploads/0123456789abcdef0123456789abcdef.png"} {
		apitest.Must[object.Info](t)(w.Objects.Create(t.Context(), key, strings.NewReader("{}"), 2, object.Attributes{}))
	}
	return append(apitest.PrivateRoutes(w), apitest.NewRoute("POST", "/loginPartner", w.Ana.JSON(t)), apitest.NewRoute("GET", "/updates/releases/1.0.0/a.zip", ""),
		apitest.NewRoute("GET", "/uploads/0123456789abcdef0123456789abcdef.png", ""), apitest.NewRoute("POST", "/upload", apitest.FilePart("x")+"--b--\r\n"))
}

// pathOf is a route's path alone.
func pathOf(r apitest.Route) string {
	path, _, _ := strings.Cut(r.Path, "?")
	return path
}

// try sends a request of askers.
func try(c apitest.Client, w *apitest.World, r apitest.Route) apitest.Answer {
	if r.Path == "/upload" {
		return c.Attempt(r, apitest.UploadHeader(w, nil))
	}
	return c.Attempt(r, nil)
}

// wantHidden demands a failure that says nothing of the back end but has the
// request's id, by which the log tells what it was.
func wantHidden(t *testing.T, w *apitest.World, what string, got apitest.Answer, status int) {
	t.Helper()
	id := got.Header.Get("X-Request-Id")
	text := got.WantFailure(t, status)
	if id == "" || !strings.HasSuffix(text, " (request "+id+")") || strings.Contains(text, "secret") || strings.Contains(text, "10.0.0.7") {
		t.Errorf("%s: %d %s, id %q", what, got.Status, got.Body, id)
	}
	for line := range strings.Lines(w.Logged.String()) {
		if strings.Contains(line, id) && strings.Contains(line, apitest.Detail) {
			return
		}
	}
	t.Errorf("%s: the log says nothing of request %s", what, id)
}

// statusOf is what a route answers whose back end failed.
func statusOf(r apitest.Route) int {
	if r.Method == "GET" && strings.HasPrefix(r.Path, "/up") {
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Each back end fails in each way that it can, and only those who need it notice.
func TestHostileBackends(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	f := apitest.Unsteady(w)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	routes := askers(t, w)
	for room, sentinels := range map[string][]error{
		"records":  {record.ErrUnavailable, record.ErrInvalid, record.ErrConflict, record.ErrExists, &record.ConflictError{Object: record.Ref{Kind: record.Line, ID: 5}}},
		"series":   {series.ErrUnavailable, series.ErrSlow, series.ErrNoDatabase, series.ErrTooLarge, series.ErrKind, series.ErrInvalid, series.ErrName},
		"objects":  {object.ErrUnavailable, object.ErrNoStore, object.ErrFull, object.ErrCorrupt, object.ErrChanged, fs.ErrExist},
		"messages": {mqtt.ErrUnavailable, mqtt.ErrUnknown, mqtt.ErrTooLarge, mqtt.ErrTopic, mqtt.ErrDenied, &mqtt.DeniedError{ReasonCode: 135}},
	} {
		for _, sentinel := range append(sentinels, errors.New("something"), fs.ErrPermission, context.DeadlineExceeded, context.Canceled) {
			for _, r := range routes {
				call := needs[pathOf(r)]
				if !strings.HasPrefix(call, room) || r.Path == "/loginPartner" && errors.Is(sentinel, record.ErrInvalid) { // which is a wrong login
					continue
				}
				w.Clock.Move(2 * time.Minute) // so that nothing is remembered
				ana.Get("/getAllMenu").Data(t)
				f.Fail(fmt.Errorf("%s: %w: %s", apitest.Detail, sentinel, apitest.Detail), call)
				got := try(ana, w, r)
				var conflict *record.ConflictError
				if errors.As(sentinel, &conflict) {
					if text := got.WantFailure(t, 500); text != conflict.Error() { // which the client can mend
						t.Errorf("a conflict: %s", text)
					}
				} else {
					wantHidden(t, w, fmt.Sprintf("%s: %v", r.Path, sentinel), got, statusOf(r))
				}
				f.Fail(nil)
			}
		}
	}
	for call, who := range map[string][]string{
		"records.": {"/loginPartner", "/getObjectCanva", "/saveDiagram", "/getConfigNotify", "/sendConfigMQTT", "/getAllMenu", "/getPermission", "/indicatorCharts"},
		"series.":  {"/seriesDataTs", "/dataTs", "/multipleDataTs"},
		"objects.": {"/updates/releases/1.0.0/a.zip", "/uploads/0123456789abcdef0123456789abcdef.png", "/upload"}, "messages.": {"/sendConfigMQTT"},
	} {
		for _, path := range []string{"/seriesDataTs", "/getVarsTs"} { // for which what the records say is known for a minute
			try(ana, w, routes[slices.IndexFunc(routes, func(r apitest.Route) bool { return r.Path == path })])
		}
		f.Fail(fmt.Errorf("%w: %s", record.ErrUnavailable, apitest.Detail), call)
		w.Clock.Move(3 * time.Second)
		for _, r := range routes {
			if got := try(ana, w, r); (got.Status == 200) == slices.Contains(who, pathOf(r)) {
				t.Errorf("without %s: %s: %d %s", call, r.Path, got.Status, got.Body)
			}
		}
		checkReady(t, w, ana, f, strings.TrimSuffix(call, "."))
		w.Clock.Move(3 * time.Second)
		for _, r := range routes {
			if got := try(ana, w, r); got.Status != 200 {
				t.Errorf("with %s again: %s: %d %s", call, r.Path, got.Status, got.Body)
			}
		}
	}
}

// checkReady wants /readyz to name the back end that fails, and only the concern
// that needs it to be unready, until it works.
func checkReady(t *testing.T, w *apitest.World, c apitest.Client, f *apitest.Outages, room string) {
	t.Helper()
	concern, other := "monitoring", "updates"
	if room == "objects" {
		concern, other = other, concern
	}
	for _, want := range []int{503, 200} {
		w.Clock.Move(2 * time.Second)
		for name, want := range map[string]int{concern: want, other: 200} {
			if got := c.Get("/readyz?for=" + name); got.Status != want {
				t.Errorf("without %s: ready for %s: %d %s", room, name, got.Status, got.Body)
			}
		}
		var ready struct {
			Status   string
			Backends map[string]string
		}
		got := c.Get("/readyz")
		apitest.ReadJSON(t, got.Body, &ready)
		for name, state := range ready.Backends {
			if name == "uploads" && room == "objects" {
				continue // which is tried every 30 s
			}
			if (state == "ok") != (want == 200 || name != room) {
				t.Errorf("without %s: %s", room, got.Body)
			}
		}
		if got.Status != 200 || (ready.Status == "ok") != (want == 200) || len(ready.Backends) < 5 || strings.Contains(string(got.Body), "secret") {
			t.Errorf("without %s: %d %s", room, got.Status, got.Body)
		}
		c.Get("/healthz") // is well in any case
		f.Fail(nil)
	}
}

// Records that are away, or break, log nobody out.
func TestHostileSessions(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	f := apitest.Unsteady(w)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	for name, fault := range map[string]func(context.Context) error{
		"away":      func(context.Context) error { return fmt.Errorf("%w: %s", record.ErrUnavailable, apitest.Detail) },
		"cancelled": func(context.Context) error { return fmt.Errorf("%w: %s", context.Canceled, apitest.Detail) },
		"broken":    func(context.Context) error { panic(apitest.Detail) },
	} {
		for _, call := range []string{"records.Tenant", "records.UserByID"} {
			for _, r := range apitest.PrivateRoutes(w) {
				w.Clock.Move(2 * time.Minute)
				f.Set(fault, call)
				wantHidden(t, w, name+": "+r.Path, ana.Attempt(r, nil), 500)
				f.Fail(nil)
				if got := ana.Attempt(r, nil); got.Status != 200 {
					t.Errorf("after %s of %s: %s: %d %s", call, name, r.Path, got.Status, got.Body)
				}
			}
			w.Clock.Move(-time.Duration(len(apitest.PrivateRoutes(w))) * 2 * time.Minute) // or the token would expire
		}
	}
}

// A panic is a failure like others, and the server lives on.
func TestHostilePanics(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	f := apitest.Unsteady(w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for _, r := range askers(t, w) {
		w.Clock.Move(3 * time.Second) // so that no value is remembered
		f.Set(func(context.Context) error { panic(apitest.Detail) }, needs[pathOf(r)])
		wantHidden(t, w, r.Path, try(ana, w, r), 500)
		f.Fail(nil)
		if got := try(ana, w, r); got.Status != 200 {
			t.Errorf("%s after a panic: %d %s", r.Path, got.Status, got.Body)
		}
	}
}

// Back ends that hang keep nobody past the deadline of a request, and those who
// need others don't notice.
func TestHostileWaits(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	f := apitest.Unsteady(w)
	routes := askers(t, w)
	patient := w.LogIn(t, w.Serve(t), w.Ana)
	hasty := patient
	hasty.Base = w.ServeHasty(t).URL
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("%s: %w", apitest.Detail, ctx.Err())
	}
	for _, calls := range [][]string{
		{"records.Tenant", "records.UserByID"}, // while nobody is remembered
		{"series.Current", "series.Series", "records.Diagram", "records.SaveDiagram", "records.Variables", "records.Menus", "records.NotifyConfig", "records.Charts", "messages."},
		{"records.Permissions"},
	} {
		w.Clock.Move(2 * time.Minute)
		if calls[0] != "records.Tenant" {
			patient.Get("/getAllMenu").Data(t)
		}
		f.Set(hang, calls...)
		apitest.Concurrently(len(routes), func(i int) {
			r := routes[i]
			if !waitsFor(r, calls) {
				if got := try(patient, w, r); got.Status != 200 {
					t.Errorf("%s while %s hang: %d %s", r.Path, calls, got.Status, got.Body)
				}
				return
			}
			got := try(hasty, w, r)
			if text := got.WantFailure(t, 500); text != "the server did not get the answer in time (request "+got.Header.Get("X-Request-Id")+")" {
				t.Errorf("%s while %s hang: %d %s", r.Path, calls, got.Status, got.Body)
			}
			if got.Header.Get("Retry-After") != "5" && strings.HasPrefix(needs[pathOf(r)], "series.") {
				t.Errorf("%s while %s hang: it does not say when to try again", r.Path, calls)
			}
		})
		f.Fail(nil)
	}
}

// TestSlowAndAway: a time-series database that is slow is not called away, and the other
// way round.
func TestSlowAndAway(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	f := apitest.Unsteady(w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	routes := askers(t, w)
	for _, c := range []struct {
		err        error
		says, wait string
	}{
		{series.ErrSlow, "the time-series database did not answer in time: ", "5"},
		{series.ErrUnavailable, "the time-series database can't be reached at the moment ", ""},
	} {
		for _, r := range routes {
			if !strings.HasPrefix(needs[pathOf(r)], "series.") {
				continue
			}
			w.Clock.Move(3 * time.Second) // so that no value is remembered
			f.Fail(fmt.Errorf("%s: %w", apitest.Detail, c.err), "series.")
			got := try(ana, w, r)
			if text := got.WantFailure(t, 500); !strings.HasPrefix(text, c.says) || got.Header.Get("Retry-After") != c.wait {
				t.Errorf("%s: %s (Retry-After %q)", r.Path, text, got.Header.Get("Retry-After"))
			}
			f.Fail(nil)
		}
	}
}

// waitsFor says that a route needs a call that hangs.
func waitsFor(r apitest.Route, calls []string) bool {
	need := needs[pathOf(r)]
	switch calls[0] {
	case "records.Tenant":
		return !strings.HasPrefix(need, "objects.")
	case "records.Permissions":
		return need == calls[0] || r.Path == "/saveDiagram" || r.Path == "/sendConfigMQTT"
	}
	return slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(need, call) })
}

// A row of the audit outlives its client, but not for long.
func TestHostileAudits(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	f := apitest.Unsteady(w)
	w.Deadline = 2 * time.Second
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	asked := make(chan time.Duration, 4)
	f.Set(func(ctx context.Context) error {
		until, _ := ctx.Deadline()
		asked <- time.Until(until)
		return fmt.Errorf("%s: %w", apitest.Detail, record.ErrUnavailable)
	}, "records.Audit")
	long := w.Ana
	long.Email = strings.Repeat("a", 1<<19)
	for _, r := range []apitest.Route{apitest.NewRoute("POST", "/saveDiagram", `{"diagram":{"title":"kept"}}`), apitest.NewRoute("POST", "/sendConfigMQTT", `{"topic":"acueducto/x","data":{}}`), apitest.NewRoute("POST", "/loginPartner", w.Ana.JSON(t)), apitest.NewRoute("POST", "/loginPartner", long.JSON(t))} {
		before := len(w.Logged.String())
		got := ana.Attempt(r, nil)
		select {
		case wait := <-asked:
			if wait <= 0 || wait > 2*time.Second {
				t.Errorf("%s: the row may take %s", r.Path, wait)
			}
		default:
			t.Errorf("%s: answered before there was a row", r.Path)
		}
		if want := map[bool]int{true: 200, false: 401}[len(r.Body) < 1000]; got.Status != want {
			t.Errorf("%s without a row: %d %s", r.Path, got.Status, got.Body)
		}
		if lost := w.Logged.String()[before:]; !strings.Contains(lost, "audit row lost") || !strings.Contains(lost, apitest.Detail) || len(lost) > 10_000 {
			t.Errorf("%s without a row: %d bytes of log: %.300s", r.Path, len(lost), lost)
		}
	}
}
