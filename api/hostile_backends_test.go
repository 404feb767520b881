package api

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

	"tsmon/api/monitor/mqtt"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// detail is what a back end says that no client may read.
const detail = "secret detail of 10.0.0.7"

// needs are the back ends that a route asks, once its user is remembered.
var needs = map[string]string{
	"/loginPartner": "records.Tenant", "/seriesDataTs": "series.Series", "/dataTs": "series.Current", "/multipleDataTs": "series.Current",
	"/getObjectCanva": "records.Diagram", "/saveDiagram": "records.SaveDiagram", "/getVarsTs": "records.Variables", "/getConfigNotify": "records.NotifyConfig",
	"/sendConfigMQTT": "messages.Publish", "/getAllMenu": "records.Menus", "/getPermission": "records.Permissions", "/indicatorCharts": "records.Charts",
	"/updates/releases/1.0.0/a.zip": "objects.Get", "/uploads/0123456789abcdef0123456789abcdef.png": "objects.Get", "/upload": "objects.Create",
}

// askers are a request for each route, and what it answers while all is well.
func askers(t *testing.T, w *world) []route {
	t.Helper()
	for _, key := range []string{"releases/1.0.0/a.zip", "uploads/0123456789abcdef0123456789abcdef.png"} {
		must[object.Info](t)(w.Objects.Create(t.Context(), key, strings.NewReader("{}"), 2, object.Attributes{}))
	}
	return append(privateRoutes(w), route{"POST", "/loginPartner", w.ana.body(t)}, route{"GET", "/updates/releases/1.0.0/a.zip", ""},
		route{"GET", "/uploads/0123456789abcdef0123456789abcdef.png", ""}, route{"POST", "/upload", filePart("x") + "--b--\r\n"})
}

// pathOf is a route's path alone.
func pathOf(r route) string {
	path, _, _ := strings.Cut(r.path, "?")
	return path
}

// try sends a request of askers.
func try(c client, w *world, r route) answer {
	if r.path == "/upload" {
		return c.attempt(r, uploader(w, nil))
	}
	return c.attempt(r, nil)
}

// wantHidden demands a failure that says nothing of the back end but has the
// request's id, by which the log tells what it was.
func wantHidden(t *testing.T, w *world, what string, got answer, status int) {
	t.Helper()
	id := got.header.Get("X-Request-Id")
	text := got.wantFailure(t, status)
	if id == "" || !strings.HasSuffix(text, " (request "+id+")") || strings.Contains(text, "secret") || strings.Contains(text, "10.0.0.7") {
		t.Errorf("%s: %d %s, id %q", what, got.status, got.body, id)
	}
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, id) && strings.Contains(line, detail) {
			return
		}
	}
	t.Errorf("%s: the log says nothing of request %s", what, id)
}

// statusOf is what a route answers whose back end failed.
func statusOf(r route) int {
	if r.method == "GET" && strings.HasPrefix(r.path, "/up") {
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Each back end fails in each way that it can, and only those who need it notice.
func TestHostileBackends(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	grants(t, w)
	f := unsteady(w)
	server := w.serve(t)
	ana := w.as(t, server, w.ana)
	routes := askers(t, w)
	for room, sentinels := range map[string][]error{
		"records":  {record.ErrUnavailable, record.ErrInvalid, record.ErrConflict, record.ErrExists, &record.ConflictError{Object: record.Ref{Kind: record.Line, ID: 5}}},
		"series":   {series.ErrUnavailable, series.ErrNoDatabase, series.ErrTooLarge, series.ErrKind, series.ErrInvalid, series.ErrName},
		"objects":  {object.ErrUnavailable, object.ErrNoStore, object.ErrFull, object.ErrCorrupt, object.ErrChanged, fs.ErrExist},
		"messages": {mqtt.ErrUnavailable, mqtt.ErrUnknown, mqtt.ErrTooLarge, mqtt.ErrTopic, mqtt.ErrDenied, &mqtt.DeniedError{ReasonCode: 135}},
	} {
		for _, sentinel := range append(sentinels, errors.New("something"), fs.ErrPermission, context.DeadlineExceeded, context.Canceled) {
			for _, r := range routes {
				call := needs[pathOf(r)]
				if !strings.HasPrefix(call, room) || r.path == "/loginPartner" && errors.Is(sentinel, record.ErrInvalid) { // which is a wrong login
					continue
				}
				w.now.move(3 * time.Second) // so that no value is remembered
				ana.get("/getAllMenu").data(t)
				f.fail(fmt.Errorf("%s: %w: %s", detail, sentinel, detail), call)
				got := try(ana, w, r)
				var conflict *record.ConflictError
				if errors.As(sentinel, &conflict) {
					if text := got.wantFailure(t, 500); text != conflict.Error() { // which the client can mend
						t.Errorf("a conflict: %s", text)
					}
				} else {
					wantHidden(t, w, fmt.Sprintf("%s: %v", r.path, sentinel), got, statusOf(r))
				}
				f.fail(nil)
			}
		}
	}
	for call, who := range map[string][]string{
		"records.": {"/loginPartner", "/seriesDataTs", "/getObjectCanva", "/saveDiagram", "/getVarsTs", "/getConfigNotify", "/sendConfigMQTT", "/getAllMenu", "/getPermission", "/indicatorCharts"},
		"series.":  {"/seriesDataTs", "/dataTs", "/multipleDataTs"},
		"objects.": {"/updates/releases/1.0.0/a.zip", "/uploads/0123456789abcdef0123456789abcdef.png", "/upload"}, "messages.": {"/sendConfigMQTT"},
	} {
		f.fail(fmt.Errorf("%w: %s", record.ErrUnavailable, detail), call)
		w.now.move(3 * time.Second)
		for _, r := range routes {
			if got := try(ana, w, r); (got.status == 200) == slices.Contains(who, pathOf(r)) {
				t.Errorf("without %s: %s: %d %s", call, r.path, got.status, got.body)
			}
		}
		checkReady(t, w, ana, f, strings.TrimSuffix(call, "."))
		w.now.move(3 * time.Second)
		for _, r := range routes {
			if got := try(ana, w, r); got.status != 200 {
				t.Errorf("with %s again: %s: %d %s", call, r.path, got.status, got.body)
			}
		}
	}
}

// checkReady demands that a server says which back end fails, until it works.
func checkReady(t *testing.T, w *world, c client, f *outages, room string) {
	t.Helper()
	for _, want := range []int{503, 200} {
		w.now.move(2 * time.Second)
		var ready struct {
			Status   string
			Backends map[string]string
		}
		got := c.get("/readyz")
		readJSON(t, got.body, &ready)
		for name, state := range ready.Backends {
			if name == "updates" && room == "objects" {
				continue // which lie there
			}
			if (state == "ok") != (want == 200 || name != room) {
				t.Errorf("without %s: %s", room, got.body)
			}
		}
		if got.status != want || len(ready.Backends) < 4 || strings.Contains(string(got.body), "secret") {
			t.Errorf("without %s: %d %s", room, got.status, got.body)
		}
		c.get("/healthz") // is well in any case
		f.fail(nil)
	}
}

// Records that are away, or break, log nobody out.
func TestHostileSessions(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	grants(t, w)
	f := unsteady(w)
	server := w.serve(t)
	ana := w.as(t, server, w.ana)
	for name, fault := range map[string]func(context.Context) error{
		"away":      func(context.Context) error { return fmt.Errorf("%w: %s", record.ErrUnavailable, detail) },
		"cancelled": func(context.Context) error { return fmt.Errorf("%w: %s", context.Canceled, detail) },
		"broken":    func(context.Context) error { panic(detail) },
	} {
		for _, call := range []string{"records.Tenant", "records.UserByID"} {
			for _, r := range privateRoutes(w) {
				w.now.move(2 * time.Minute)
				f.set(fault, call)
				wantHidden(t, w, name+": "+r.path, ana.attempt(r, nil), 500)
				f.fail(nil)
				if got := ana.attempt(r, nil); got.status != 200 {
					t.Errorf("after %s of %s: %s: %d %s", call, name, r.path, got.status, got.body)
				}
			}
			w.now.move(-time.Duration(len(privateRoutes(w))) * 2 * time.Minute) // or the token would expire
		}
	}
}

// A panic is a failure like others, and the server lives on.
func TestHostilePanics(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	grants(t, w)
	f := unsteady(w)
	ana := w.as(t, w.serve(t), w.ana)
	for _, r := range askers(t, w) {
		w.now.move(3 * time.Second) // so that no value is remembered
		f.set(func(context.Context) error { panic(detail) }, needs[pathOf(r)])
		wantHidden(t, w, r.path, try(ana, w, r), 500)
		f.fail(nil)
		if got := try(ana, w, r); got.status != 200 {
			t.Errorf("%s after a panic: %d %s", r.path, got.status, got.body)
		}
	}
}

// Back ends that hang keep nobody past the deadline of a request, and those who
// need others don't notice.
func TestHostileWaits(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	grants(t, w)
	f := unsteady(w)
	routes := askers(t, w)
	patient := w.as(t, w.serve(t), w.ana)
	hasty := patient
	hasty.base = w.serveHasty(t).URL
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("%s: %w", detail, ctx.Err())
	}
	for _, calls := range [][]string{
		{"records.Tenant", "records.UserByID"}, // while nobody is remembered
		{"series.Current", "series.Series", "records.Diagram", "records.SaveDiagram", "records.Variables", "records.Menus", "records.NotifyConfig", "records.Charts", "messages."},
		{"records.Permissions"},
	} {
		w.now.move(2 * time.Minute)
		if calls[0] != "records.Tenant" {
			patient.get("/getAllMenu").data(t)
		}
		f.set(hang, calls...)
		together(len(routes), func(i int) {
			r := routes[i]
			if !waitsFor(r, calls) {
				if got := try(patient, w, r); got.status != 200 {
					t.Errorf("%s while %s hang: %d %s", r.path, calls, got.status, got.body)
				}
				return
			}
			got := try(hasty, w, r)
			if text := got.wantFailure(t, 500); text != "the server did not get the answer in time (request "+got.header.Get("X-Request-Id")+")" {
				t.Errorf("%s while %s hang: %d %s", r.path, calls, got.status, got.body)
			}
		})
		f.fail(nil)
	}
}

// waitsFor says that a route needs a call that hangs.
func waitsFor(r route, calls []string) bool {
	need := needs[pathOf(r)]
	switch calls[0] {
	case "records.Tenant":
		return !strings.HasPrefix(need, "objects.")
	case "records.Permissions":
		return need == calls[0] || r.path == "/saveDiagram" || r.path == "/sendConfigMQTT"
	}
	return slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(need, call) })
}

// A row of the audit outlives its client, but not for long.
func TestHostileAudits(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	grants(t, w)
	f := unsteady(w)
	w.Deadline = 2 * time.Second
	server := w.serve(t)
	ana := w.as(t, server, w.ana)
	asked := make(chan time.Duration, 4)
	f.set(func(ctx context.Context) error {
		until, _ := ctx.Deadline()
		asked <- time.Until(until)
		return fmt.Errorf("%s: %w", detail, record.ErrUnavailable)
	}, "records.Audit")
	long := w.ana
	long.Email = strings.Repeat("a", 1<<19)
	for _, r := range []route{{"POST", "/saveDiagram", `{"diagram":{"title":"kept"}}`}, {"POST", "/sendConfigMQTT", `{"topic":"acueducto/x","data":{}}`}, {"POST", "/loginPartner", w.ana.body(t)}, {"POST", "/loginPartner", long.body(t)}} {
		before := len(w.log.String())
		got := ana.attempt(r, nil)
		select {
		case wait := <-asked:
			if wait <= 0 || wait > 2*time.Second {
				t.Errorf("%s: the row may take %s", r.path, wait)
			}
		default:
			t.Errorf("%s: answered before there was a row", r.path)
		}
		if want := map[bool]int{true: 200, false: 401}[len(r.body) < 1000]; got.status != want {
			t.Errorf("%s without a row: %d %s", r.path, got.status, got.body)
		}
		if lost := w.log.String()[before:]; !strings.Contains(lost, "audit row lost") || !strings.Contains(lost, detail) || len(lost) > 10_000 {
			t.Errorf("%s without a row: %d bytes of log: %.300s", r.path, len(lost), lost)
		}
	}
}
