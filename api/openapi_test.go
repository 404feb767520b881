package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"tsmon/api/apitest"
	"tsmon/api/monitor"
	"tsmon/release"
	"tsmon/store/object"
	"tsmon/store/record"
)

// described is the description with what its examples are used for.
type described struct{ *openapi3.T }

func load(tb testing.TB) described {
	tb.Helper()
	return described{apitest.Must[apitest.Description](tb)(apitest.LoadDescription()).T}
}

func TestDescriptionIsValid(t *testing.T) {
	d := load(t)
	if err := d.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaPatternValidation()); err != nil {
		t.Errorf("%.2000s", err)
	}
}

// operations calls f with every operation.
func (d described) operations(f func(method, path string, op *openapi3.Operation)) {
	for path, item := range d.Paths.Map() {
		for method, op := range item.Operations() {
			f(method, path, op)
		}
	}
}

// heard is a test that keeps what it is told.
type heard struct {
	testing.TB
	text string
}

func (h *heard) Errorf(format string, args ...any) { h.text += fmt.Sprintf(format, args...) }

// TestChecksNotice holds wrong answers and requests to the description.
func TestChecksNotice(t *testing.T) {
	const value, sent = `{"data":{"nivel":{"value":4}}}`, `{"measurement":"tanque","calc_field":"nivel"}`
	for name, c := range map[string]struct {
		method, path, sent string
		status             int
		kind, body         string
		want               string // nothing: it is right
	}{
		"as described":         {"POST", "/dataTs", sent, 200, "application/json", value, ""},
		"behind the prefix":    {"POST", "/api/dataTs", sent, 200, "application/json", value, ""},
		"a member renamed":     {"POST", "/dataTs", sent, 200, "application/json", `{"data":{"nivel":{"val":4}}}`, "/data/nivel"},
		"a member more":        {"POST", "/dataTs", sent, 200, "application/json", `{"data":{"nivel":{"value":4}},"x":1}`, `"x"`},
		"null where it can't":  {"POST", "/dataTs", sent, 200, "application/json", `{"data":null}`, "/data"},
		"another type":         {"POST", "/dataTs", sent, 200, "application/json", `{"data":{"nivel":{"value":"4"}}}`, "/data/nivel/value"},
		"another Content-Type": {"POST", "/dataTs", sent, 200, "text/plain", value, "Content-Type"},
		"an unknown status":    {"POST", "/dataTs", sent, 202, "application/json", value, "status"},
		"a request too free":   {"POST", "/dataTs", `{"calc_field":"nivel"}`, 200, "application/json", value, "measurement"},
		"a parameter missing":  {"GET", "/getObjectCanva", "", 200, "application/json", `{"data":[]}`, "id"},
		"401 in another shape": {"POST", "/dataTs", sent, 401, "application/json", `{"error1":{"message":"m"}}`, "error"},
		"500 in another shape": {"POST", "/dataTs", sent, 500, "application/json", `{"error":{"message":"m","code":"UNAUTHORIZED"}}`, "error"},
		"a request refused":    {"POST", "/dataTs", `{}`, 500, "application/json", `{"error1":{"message":"m"}}`, ""},
		"a status of HEAD":     {"HEAD", "/updates/stable/latest.json", "", 500, "application/json", ``, "status"},
		"a body of 204":        {"POST", "/v2/write?bucket=b", "t v=1", 204, "application/json", `{}`, "body"},
		"no such path":         {"GET", "/nothing", "", 404, "application/json", `{"error1":{"message":"m"}}`, ""},
		"a path of its own":    {"GET", "/nothing", "", 200, "application/json", `{}`, "404"},
		"404 in another shape": {"GET", "/nothing", "", 404, "application/json", `{"message":"m"}`, "/message"},
		"405 as text":          {"PUT", "/dataTs", "", 405, "text/plain", "no", "Content-Type"},
	} {
		h := &heard{TB: t}
		r := apitest.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1"+c.path, strings.NewReader(c.sent)))
		r.Header.Set("Content-Type", "application/json")
		header := http.Header{"Content-Type": {c.kind}, "X-Request-Id": {"0123456789abcdef"}}
		apitest.CheckDescribed(h, r, apitest.Answer{Status: c.status, Header: header, Body: []byte(c.body)})
		if (c.want == "") != (h.text == "") || !strings.Contains(h.text, c.want) {
			t.Errorf("%s: it says %q, want something of %q", name, h.text, c.want)
		}
	}
	h := &heard{TB: t}
	r := apitest.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/updates/stable/latest.json", nil))
	apitest.CheckDescribed(h, r, apitest.Answer{Status: 304, Header: http.Header{"Etag": {`"a"`}}})
	if !strings.Contains(h.text, "X-Request-Id") {
		t.Errorf("an answer without an id: it says %q", h.text)
	}
}

// TestDescribedSecurity asks each operation without proof of who asks: 401 where
// the description demands one, and nowhere else.
func TestDescribedSecurity(t *testing.T) {
	d := load(t)
	nobody := apitest.Client{TB: t, Base: apitest.Embedded(t).Serve(t).URL}
	d.operations(func(method, path string, op *openapi3.Operation) {
		needed := d.Security
		if op.Security != nil {
			needed = *op.Security
		}
		open := len(needed) == 0
		for _, one := range needed {
			open = open || len(one) == 0
		}
		got := nobody.Send(method, path, apitest.Raw("{}"), nil)
		if open == (got.Status == http.StatusUnauthorized) && path != "/loginPartner" { // which refuses this login
			t.Errorf("%s %s: %d without proof, which is enough by the description: %v", method, path, got.Status, open)
		}
	})
}

// TestExamplesWork sends the examples of requests to a server that holds what
// the examples of answers show.
func TestExamplesWork(t *testing.T) {
	d := load(t)
	w := apitest.Embedded(t)
	shown := d.store(t, w)
	var who apitest.Login
	remarshal(t, d.Paths.Value("/loginPartner").Post.RequestBody.Value.Content["application/json"].Example, &who)
	user := record.User{Email: who.Email, Profile: 7, Admin: true, TokenDigest: monitor.TokenDigest(who.TokenApp)}
	apitest.Must[record.User](t)(w.Records.CreateUser(t.Context(), who.Schema, user))
	asked := w.LogIn(t, w.Serve(t), who)
	d.operations(func(method, path string, op *openapi3.Operation) {
		body, header := exampleBody(t, w, op)
		client := asked
		if op.Security != nil && slices.ContainsFunc(*op.Security, func(one openapi3.SecurityRequirement) bool { return one["metricsKey"] != nil }) {
			client.Token = w.MetricsKey
		}
		got := client.Send(method, d.exampleTarget(path, op), body, header)
		if _, redirects := op.Responses.Map()["302"]; got.Status/100 != 2 && !(redirects && got.Status == http.StatusFound) {
			t.Errorf("%s %s: %d %.300s", method, path, got.Status, got.Body)
		}
		if data, ok := shown[path]; ok {
			got.WantData(t, string(apitest.Must[[]byte](t)(json.Marshal(data))))
		}
	})
}

// store puts what the examples of answers show into a world: files, and all that
// a tenant owns, which it returns by path.
func (d described) store(tb testing.TB, w *apitest.World) map[string]any {
	tb.Helper()
	var content record.Content
	shown := map[string]any{}
	for path, into := range map[string]any{
		"/getVarsTs": &content.Variables, "/getObjectCanva": &content.Diagrams, "/getAllMenu": &content.Menus,
		"/getPermission": &content.Permissions, "/getConfigNotify": &content.Notifications, "/indicatorCharts": &content.Charts,
	} {
		shown[path] = d.exampleAnswer(path).(map[string]any)["data"]
		remarshal(tb, shown[path], into)
	}
	if err := w.Records.Import(tb.Context(), w.Ana.Schema, content); err != nil {
		tb.Fatal(err)
	}
	w.Rings = map[string]bool{"stable": true}
	w.Desk(tb).PublishWith(tb, "1.4.0", func(o *release.PublishOptions) {
		o.Bundles = apitest.Bundles(tb, "1.4.0", "App_1.4.0_amd64.AppImage.tar.gz", "App_1.4.0_amd64.deb")
	})
	for path, file := range map[string][]byte{"/uploads/{name}": apitest.PNG} {
		target, _, _ := strings.Cut(d.exampleTarget(path, d.Paths.Value(path).Get), "?")
		key := strings.TrimPrefix(strings.TrimPrefix(target, "/updates"), "/")
		apitest.Must[object.Info](tb)(w.Objects.Create(tb.Context(), key, bytes.NewReader(file), int64(len(file)), object.Attributes{}))
	}
	return shown
}

func (d described) exampleAnswer(path string) any {
	return d.Paths.Value(path).Get.Responses.Status(http.StatusOK).Value.Content["application/json"].Example
}

// exampleTarget is a path with the examples of its parameters.
func (d described) exampleTarget(path string, op *openapi3.Operation) string {
	query := url.Values{}
	for _, p := range append(slices.Clone(d.Paths.Value(path).Parameters), op.Parameters...) {
		switch example := fmt.Sprint(p.Value.Example); {
		case p.Value.In == openapi3.ParameterInPath:
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", example)
		case p.Value.In == openapi3.ParameterInQuery && p.Value.Example != nil:
			query.Set(p.Value.Name, example)
		}
	}
	return path + "?" + query.Encode()
}

// exampleBody is the example of a request's body, with the headers that it needs
// besides those of the client.
func exampleBody(tb testing.TB, w *apitest.World, op *openapi3.Operation) (any, http.Header) {
	tb.Helper()
	if op.RequestBody == nil {
		return nil, nil
	}
	content := op.RequestBody.Value.Content
	if content["multipart/form-data"] != nil {
		return apitest.Form(tb, w, "file", "plano.png", apitest.PNG)
	}
	if lines := content["*/*"]; lines != nil {
		return apitest.Raw(lines.Example.(string)), http.Header{"Authorization": {"Token " + w.WriteToken}}
	}
	header := http.Header{}
	for _, p := range op.Parameters {
		if p.Value.In == openapi3.ParameterInHeader && p.Value.Required {
			header.Set(p.Value.Name, fmt.Sprint(p.Value.Example))
		}
	}
	return content["application/json"].Example, header
}

// remarshal reads a decoded JSON value into another.
func remarshal(tb testing.TB, from, into any) {
	tb.Helper()
	if err := json.Unmarshal(apitest.Must[[]byte](tb)(json.Marshal(from)), into); err != nil {
		tb.Fatal(err)
	}
}

// TestDescribedFailures provokes answers that clients seldom see.
func TestDescribedFailures(t *testing.T) {
	d := load(t)
	w := apitest.Embedded(t)
	d.store(t, w)
	w.MaxUpload = int64(len(apitest.PNG)) - 1
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	want := func(what string, got apitest.Answer, status int) {
		t.Helper()
		if got.Status != status {
			t.Errorf("%s: %d %.300s, want %d", what, got.Status, got.Body, status)
		}
	}
	upload := func(part string) apitest.Answer {
		body, header := apitest.Form(t, w, part, "plano.png", apitest.PNG)
		return ana.Send("POST", "/upload", body, header)
	}
	keys := http.Header{"accesskey": {w.Uploads.Access}, "secretkey": {w.Uploads.Secret}}
	want("a file too large", upload("file"), 413)
	want("another part", upload("plano"), 500)
	want("no form", ana.Send("POST", "/upload", apitest.Raw("{}"), keys), 415)
	write := func(lines string) apitest.Answer {
		return ana.Send("POST", "/v2/write?bucket="+w.Ana.TsName, apitest.Raw(lines), http.Header{"Authorization": {"Token " + w.WriteToken}})
	}
	want("values", write("tanque nivel=1"), 204)
	want("values of another kind", write(`tanque nivel="x"`), 422)
	want("a line too long", write("tanque nivel="+strings.Repeat("1", 1<<20)), 413)

	files := []string{"/uploads/{name}", "/updates/{channel}/latest.json", "/updates/{channel}/downloads.json", "/updates/releases/{version}/{file}"}
	broken := *w
	apitest.Unsteady(&broken).Fail(object.ErrUnavailable, "objects.")
	down := apitest.Client{TB: t, Base: broken.Serve(t).URL}
	for _, path := range files {
		target := d.exampleTarget(path, d.Paths.Value(path).Get)
		for _, method := range []string{"GET", "HEAD"} {
			want(method+target+" again", ana.Send(method, target, nil, http.Header{"If-None-Match": {"*"}}), 304)
			want(method+target+" without a store", down.Send(method, target, nil, nil), 503)
		}
	}

	want("all is well", ana.Get("/getVarsTs"), 200)
	if err := w.Series.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	want("values without a database", write("tanque nivel=1"), 503)
	if err := w.Records.Close(); err != nil {
		t.Fatal(err)
	}
	want("values without records", write("tanque nivel=1"), 500)
	want("no such concern", ana.Get("/readyz?for=billing"), 400)
	want("an empty concern", ana.Get("/readyz?for="), 400)
	w.Clock.Move(2 * time.Second) // the back ends are asked once a second
	want("not ready for monitoring", ana.Get("/readyz?for=monitoring"), 503)
	want("ready for updates", ana.Get("/readyz?for=updates"), 200)
	for _, path := range []string{"/getVarsTs", "/getConfigNotify", "/getAllMenu", "/indicatorCharts"} {
		want(path, ana.Get(path), 500)
	}
}
