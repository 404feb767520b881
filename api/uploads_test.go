package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// png is the smallest picture.
var png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82")

// form is a body with one file, and its headers.
func form(tb testing.TB, w *world, part, name string, content []byte) (*bytes.Buffer, http.Header) {
	tb.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	to, err := m.CreateFormFile(part, name)
	if err == nil {
		_, err = to.Write(content)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	// As the client sends them, not in Go's own capitals.
	return &body, http.Header{"Content-Type": {m.FormDataContentType()}, "accesskey": {w.Uploads.Access}, "secretkey": {w.Uploads.Secret}}
}

func testUploads(t *testing.T, w *world) {
	server := w.serve(t)
	nobody := client{tb: t, base: server.URL}
	big := bytes.Repeat([]byte{0, 1, 2, 3}, 1<<20)
	for _, c := range []struct {
		prefix, name string
		content      []byte
		ext, kind    string
		shown        bool
	}{
		{"", "Plano año.png", png, ".png", "image/png", true},
		{"/api", "plano.png", png, ".png", "image/png", true},
		{"", "dibujo.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), ".svg", "image/svg+xml", false},
		{"", "pagina.png", []byte(`<!DOCTYPE html><html><script>alert(1)</script></html>`), ".html", "text/html; charset=utf-8", false},
		{"", "big.bin", big, ".bin", "application/octet-stream", false},
	} {
		body, header := form(t, w, "file", c.name, c.content)
		got := nobody.send("POST", c.prefix+"/upload", body, header)
		var answer struct {
			Success bool
			Data    received
		}
		if err := json.Unmarshal(got.body, &answer); err != nil || got.status != 200 || !answer.Success {
			t.Fatalf("%s: %d %s", c.name, got.status, got.body)
		}
		sum := sha256.Sum256(c.content)
		d := answer.Data
		if d.Name != c.name || d.Size != int64(len(c.content)) || d.ContentType != c.kind || d.SHA256 != hex.EncodeToString(sum[:]) ||
			!strings.HasPrefix(d.Key, "uploads/") || !strings.HasSuffix(d.Key, c.ext) || d.URL != server.URL+c.prefix+"/"+d.Key {
			t.Errorf("%s: %+v", c.name, d)
		}
		read := nobody.get(strings.TrimPrefix(d.URL, server.URL))
		if read.status != 200 || !bytes.Equal(read.body, c.content) || read.header.Get("Content-Type") != c.kind ||
			read.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(read.header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s read: %d %v", c.name, read.status, read.header)
		}
		if attached := strings.HasPrefix(read.header.Get("Content-Disposition"), "attachment"); attached == c.shown {
			t.Errorf("%s is shown %v, want %v", c.name, !attached, c.shown)
		}
		// It is no part of the update tree, nor is the log part of the uploads.
		nobody.get("/updates/"+d.Key).wantFailure(t, 404)
	}
	body, header := form(t, w, "file", "x.png", png)
	header["secretkey"] = []string{"wrong"}
	nobody.send("POST", "/upload", body, header).wantFailure(t, 401)
	nobody.get("/uploads/0123456789abcdef0123456789abcdef.png").wantFailure(t, 404)
}

// subscribe returns what arrives under a filter, on its own connection.
func subscribe(tb testing.TB, w *world, filter string) <-chan *paho.Publish {
	tb.Helper()
	address := w.broker
	if !strings.Contains(address, "://") {
		address = "mqtt://" + address
	}
	at := must[*url.URL](tb)(url.Parse(address))
	arrived := make(chan *paho.Publish, 100)
	config := autopaho.ClientConfig{ServerUrls: []*url.URL{at}, KeepAlive: 20, CleanStartOnInitialConnection: true}
	if at.User != nil {
		password, _ := at.User.Password()
		config.ConnectUsername, config.ConnectPassword = at.User.Username(), []byte(password)
	}
	config.OnPublishReceived = []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
		arrived <- p.Packet
		return true, nil
	}}
	// Stopping waits for the connection's goroutines, which tb's context would end.
	connection := must[*autopaho.ConnectionManager](tb)(autopaho.NewConnection(context.WithoutCancel(tb.Context()), config))
	tb.Cleanup(func() { connection.Disconnect(context.WithoutCancel(tb.Context())) })
	if err := connection.AwaitConnection(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	must[*paho.Suback](tb)(connection.Subscribe(tb.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}))
	return arrived
}

func testPublishing(t *testing.T, w *world) {
	grants(t, w)
	ana := w.as(t, w.serve(t), w.ana)
	topic := w.ana.Schema + "/estación norte/bomba/1"
	arrived := subscribe(t, w, w.ana.Schema+"/estación norte/#")
	got := ana.post("/sendConfigMQTT", raw(`{"topic":"`+topic+`","data":{"source_0": [1, 2.50], "source_1": []}}`))
	got.wantData(t, `{"success":true,"topic":"`+topic+`","reasonCode":0,"matched":true}`)
	if !strings.HasPrefix(string(got.body), `{"success":true,`) {
		t.Errorf("answer is %s", got.body)
	}
	select {
	case p := <-arrived:
		if p.Topic != topic || string(p.Payload) != `{"source_0": [1, 2.50], "source_1": []}` || p.Retain || p.QoS != 1 {
			t.Errorf("received %+v %s", p, p.Payload)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing arrived")
	}
	ana.post("/sendConfigMQTT", raw(`{"topic":"`+w.ana.Schema+`/nobody","data":{}}`)).
		wantData(t, `{"success":true,"topic":"`+w.ana.Schema+`/nobody","reasonCode":16,"matched":false}`)
	for body, status := range map[string]int{
		`{"topic":"` + w.otro.Schema + `/bomba/1","data":{}}`:                                  403,
		`{"topic":"` + w.ana.Schema + `2/bomba","data":{}}`:                                    403,
		`{"topic":"` + w.ana.Schema + `","data":{}}`:                                           403,
		`{"topic":"/` + w.ana.Schema + `/x","data":{}}`:                                        403,
		`{"topic":"` + w.ana.Schema + `/#","data":{}}`:                                         500,
		`{"topic":"` + w.ana.Schema + `/+/x","data":{}}`:                                       500,
		`{"topic":"` + w.ana.Schema + `/\u0000","data":{}}`:                                    500,
		`{"topic":"$SYS/x","data":{}}`:                                                         500,
		`{"topic":"","data":{}}`:                                                               500,
		`{"topic":"` + w.ana.Schema + `/` + strings.Repeat("x", 1024) + `","data":{}}`:         500,
		`{"topic":"` + w.ana.Schema + `/x"}`:                                                   500,
		`{"topic":"` + w.ana.Schema + `/x","data":[]}`:                                         500,
		`{"topic":"` + w.ana.Schema + `/x","data":null}`:                                       500,
		`{"topic":5,"data":{}}`:                                                                500,
		`{"topic":"` + w.ana.Schema + `/x","data":{"x":"` + strings.Repeat("x", 1<<18) + `"}}`: 500,
	} {
		ana.post("/sendConfigMQTT", raw(body)).wantFailure(t, status)
	}
	select {
	case p := <-arrived:
		t.Errorf("%s arrived, which nobody sent", p.Topic)
	default:
	}
}

func testWritingLines(t *testing.T, w *world) {
	server := w.serve(t)
	nobody := client{tb: t, base: server.URL}
	auth := http.Header{"Authorization": {"Token " + w.WriteToken}, "Content-Type": {"text/plain; charset=utf-8"}}
	at := w.now.now().Unix()
	path := "/api/v2/write?org=any&bucket=" + w.ana.TsName
	if got := nobody.send("POST", path+"&precision=s", raw(fmt.Sprintf("tanque,sitio=sur nivel=1 %d\ntanque,sitio=sur nivel=3.5 %d\n", at-60, at-30)), auth); got.status != 204 || len(got.body) != 0 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprintf(z, "tanque,sitio=sur caudal=7i %d\n", (at-30)*1e9)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	zipped := auth.Clone()
	zipped.Set("Content-Encoding", "gzip")
	if got := nobody.send("POST", path, &packed, zipped); got.status != 204 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	w.settle(w.ana.TsName)
	ana := w.as(t, server, w.ana)
	ana.post("/multipleDataTs", raw("["+item(1, "", formNivel)+","+item(2, "", `{"measurement":"tanque","field":"caudal"}`)+"]")).wantData(t, `{"1":3.5,"2":7}`)
	for _, c := range []struct {
		path, body, token string
		status            int
	}{
		{path, "tanque nivel=1", "Token wrong", 401},
		{path, "tanque nivel=1", "", 401},
		{"/api/v2/write?bucket=nothing", "tanque nivel=1", "Token " + w.WriteToken, 404},
		{"/api/v2/write", "tanque nivel=1", "Token " + w.WriteToken, 404},
		{path + "&precision=h", "tanque nivel=1", "Token " + w.WriteToken, 400},
		{path, "tanque nivel", "Token " + w.WriteToken, 400},
	} {
		got := nobody.send("POST", c.path, raw(c.body), http.Header{"Authorization": {c.token}})
		var body struct{ Code, Message string }
		if err := json.Unmarshal(got.body, &body); err != nil || got.status != c.status || body.Code == "" || body.Message == "" {
			t.Errorf("%s with %q: %d %s, want %d", c.path, c.body, got.status, got.body, c.status)
		}
	}
}

func testHealth(t *testing.T, w *world) {
	nobody := client{tb: t, base: w.serve(t).URL}
	if got := nobody.get("/healthz"); got.status != 200 || string(got.body) != "{\"status\":\"ok\"}\n" {
		t.Errorf("%d %s", got.status, got.body)
	}
	want := `{"status":"ok","backends":{"messages":"ok","objects":"ok","records":"ok","series":"ok","updates":"ok"}}` + "\n"
	if got := nobody.get("/readyz"); got.status != 200 || string(got.body) != want {
		t.Errorf("%d %s\n%s", got.status, got.body, w.log)
	}
	if got := nobody.get("/metrics"); got.status != 200 || !strings.Contains(string(got.body), `tsmon_http_request_duration_seconds_count{method="GET",route="/readyz",status="200"} 1`) {
		t.Errorf("%d %.2000s", got.status, got.body)
	}
	w.MetricsKey = "key-of-the-metrics"
	w.BehindProxy = true
	nobody.base = w.serve(t).URL
	nobody.get("/metrics").wantFailure(t, 403)
	nobody.token = "another"
	nobody.get("/metrics").wantFailure(t, 403)
	nobody.token = w.MetricsKey
	if got := nobody.get("/api/metrics"); got.status != 200 {
		t.Errorf("with the key: %d", got.status)
	}
}

// TestAllow: an address that does not take a method says which it takes.
func TestAllow(t *testing.T) {
	nobody := client{tb: t, base: embedded(t).serve(t).URL}
	for path, want := range map[string]string{"/loginPartner": "[POST]", "/api/getVarsTs": "[GET]", "/updates/stable/latest.json": "[GET HEAD]"} {
		got := nobody.send("DELETE", path, nil, nil)
		got.wantFailure(t, 405)
		if allow := fmt.Sprint(got.header.Values("Allow")); allow != want {
			t.Errorf("%s allows %s, want %s", path, allow, want)
		}
	}
}

func testBrowsers(t *testing.T, w *world) {
	server := w.serve(t)
	nobody := client{tb: t, base: server.URL}
	for origin, known := range map[string]bool{
		"https://scada.example.com": true, "tauri://localhost": true, "http://tauri.localhost": true, "https://tauri.localhost": true,
		"http://scada.example.com": false, "https://scada.example.com.evil.com": false, "null": false, "https://SCADA.example.com": false,
	} {
		for _, path := range []string{"/multipleDataTs", "/api/loginPartner"} {
			got := nobody.send("OPTIONS", path, nil, http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"POST"},
				"Access-Control-Request-Headers": {"accept,accesskey,authorization,content-type,secretkey"}})
			allowed, credentials := got.header.Get("Access-Control-Allow-Origin"), got.header.Get("Access-Control-Allow-Credentials")
			if known != (allowed == origin && credentials == "true" && strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "authorization")) {
				t.Errorf("preflight of %s: %v", origin, got.header)
			}
			got = nobody.send("POST", path, raw("{}"), http.Header{"Origin": {origin}})
			if known != (got.header.Get("Access-Control-Allow-Origin") == origin && got.header.Get("Access-Control-Allow-Credentials") == "true") ||
				!strings.Contains(got.header.Get("Vary"), "Origin") {
				t.Errorf("%s from %s: %v", path, origin, got.header)
			}
		}
	}
}
