package monitor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"tsmon/api/apitest"
)

func TestUploads(t *testing.T) { testUploads(t, apitest.Embedded(t)) }

func testUploads(t *testing.T, w *apitest.World) {
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	big := bytes.Repeat([]byte{0, 1, 2, 3}, 1<<20)
	for _, c := range []struct {
		prefix, name string
		content      []byte
		ext, kind    string
		shown        bool
	}{
		{"", "Plano año.png", apitest.PNG, ".png", "image/png", true},
		{"/api", "plano.png", apitest.PNG, ".png", "image/png", true},
		{"", "dibujo.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), ".svg", "image/svg+xml", false},
		{"", "pagina.png", []byte(`<!DOCTYPE html><html><script>alert(1)</script></html>`), ".html", "text/html; charset=utf-8", false},
		{"", "big.bin", big, ".bin", "application/octet-stream", false},
	} {
		body, header := apitest.Form(t, w, "file", c.name, c.content)
		got := nobody.Send("POST", c.prefix+"/upload", body, header)
		var answer struct {
			Success bool
			Data    uploaded
		}
		if err := json.Unmarshal(got.Body, &answer); err != nil || got.Status != 200 || !answer.Success {
			t.Fatalf("%s: %d %s", c.name, got.Status, got.Body)
		}
		sum := sha256.Sum256(c.content)
		d := answer.Data
		if d.Name != c.name || d.Size != int64(len(c.content)) || d.ContentType != c.kind || d.SHA256 != hex.EncodeToString(sum[:]) ||
			!strings.HasPrefix(d.Key, "uploads/") || !strings.HasSuffix(d.Key, c.ext) || d.URL != server.URL+c.prefix+"/"+d.Key {
			t.Errorf("%s: %+v", c.name, d)
		}
		read := nobody.Get(strings.TrimPrefix(d.URL, server.URL))
		if read.Status != 200 || !bytes.Equal(read.Body, c.content) || read.Header.Get("Content-Type") != c.kind ||
			read.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(read.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s read: %d %v", c.name, read.Status, read.Header)
		}
		if attached := strings.HasPrefix(read.Header.Get("Content-Disposition"), "attachment"); attached == c.shown {
			t.Errorf("%s is shown %v, want %v", c.name, !attached, c.shown)
		}
		// It is no part of the update tree, nor is the log part of the uploads.
		nobody.Get("/updates/"+d.Key).WantFailure(t, 404)
	}
	body, header := apitest.Form(t, w, "file", "x.png", apitest.PNG)
	header["secretkey"] = []string{"wrong"}
	nobody.Send("POST", "/upload", body, header).WantFailure(t, 401)
	nobody.Get("/uploads/0123456789abcdef0123456789abcdef.png").WantFailure(t, 404)
}

// subscribe returns the messages that match a filter, over a connection of its own.
func subscribe(tb testing.TB, w *apitest.World, filter string) <-chan *paho.Publish {
	tb.Helper()
	address := w.Broker
	if !strings.Contains(address, "://") {
		address = "mqtt://" + address
	}
	at := apitest.Must[*url.URL](tb)(url.Parse(address))
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
	connection := apitest.Must[*autopaho.ConnectionManager](tb)(autopaho.NewConnection(context.WithoutCancel(tb.Context()), config))
	tb.Cleanup(func() { connection.Disconnect(context.WithoutCancel(tb.Context())) })
	if err := connection.AwaitConnection(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	apitest.Must[*paho.Suback](tb)(connection.Subscribe(tb.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}))
	return arrived
}

func TestPublishing(t *testing.T) { testPublishing(t, apitest.Embedded(t)) }

func testPublishing(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	topic := w.Ana.Schema + "/estación norte/bomba/1"
	arrived := subscribe(t, w, w.Ana.Schema+"/estación norte/#")
	got := ana.Post("/sendConfigMQTT", apitest.Raw(`{"topic":"`+topic+`","data":{"source_0": [1, 2.50], "source_1": []}}`))
	got.WantData(t, `{"success":true,"topic":"`+topic+`","reasonCode":0,"matched":true}`)
	if !strings.HasPrefix(string(got.Body), `{"success":true,`) {
		t.Errorf("answer is %s", got.Body)
	}
	select {
	case p := <-arrived:
		if p.Topic != topic || string(p.Payload) != `{"source_0": [1, 2.50], "source_1": []}` || p.Retain || p.QoS != 1 {
			t.Errorf("received %+v %s", p, p.Payload)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing arrived")
	}
	ana.Post("/sendConfigMQTT", apitest.Raw(`{"topic":"`+w.Ana.Schema+`/nobody","data":{}}`)).
		WantData(t, `{"success":true,"topic":"`+w.Ana.Schema+`/nobody","reasonCode":16,"matched":false}`)
	for body, status := range map[string]int{
		`{"topic":"` + w.Otro.Schema + `/bomba/1","data":{}}`:                                  403,
		`{"topic":"` + w.Ana.Schema + `2/bomba","data":{}}`:                                    403,
		`{"topic":"` + w.Ana.Schema + `","data":{}}`:                                           403,
		`{"topic":"/` + w.Ana.Schema + `/x","data":{}}`:                                        403,
		`{"topic":"` + w.Ana.Schema + `/#","data":{}}`:                                         500,
		`{"topic":"` + w.Ana.Schema + `/+/x","data":{}}`:                                       500,
		`{"topic":"` + w.Ana.Schema + `/\u0000","data":{}}`:                                    500,
		`{"topic":"$SYS/x","data":{}}`:                                                         500,
		`{"topic":"","data":{}}`:                                                               500,
		`{"topic":"` + w.Ana.Schema + `/` + strings.Repeat("x", 1024) + `","data":{}}`:         500,
		`{"topic":"` + w.Ana.Schema + `/x"}`:                                                   500,
		`{"topic":"` + w.Ana.Schema + `/x","data":[]}`:                                         500,
		`{"topic":"` + w.Ana.Schema + `/x","data":null}`:                                       500,
		`{"topic":5,"data":{}}`:                                                                500,
		`{"topic":"` + w.Ana.Schema + `/x","data":{"x":"` + strings.Repeat("x", 1<<18) + `"}}`: 500,
	} {
		ana.Post("/sendConfigMQTT", apitest.Raw(body)).WantFailure(t, status)
	}
	select {
	case p := <-arrived:
		t.Errorf("%s arrived, which nobody sent", p.Topic)
	default:
	}
}

func TestWritingLines(t *testing.T) { testWritingLines(t, apitest.Embedded(t)) }

func testWritingLines(t *testing.T, w *apitest.World) {
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	auth := http.Header{"Authorization": {"Token " + w.WriteToken}, "Content-Type": {"text/plain; charset=utf-8"}}
	at := w.Clock.Now().Unix()
	path := "/api/v2/write?org=any&bucket=" + w.Ana.TsName
	if got := nobody.Send("POST", path+"&precision=s", apitest.Raw(fmt.Sprintf("tanque,sitio=sur nivel=1 %d\ntanque,sitio=sur nivel=3.5 %d\n", at-60, at-30)), auth); got.Status != 204 || len(got.Body) != 0 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprintf(z, "tanque,sitio=sur caudal=7i %d\n", (at-30)*1e9)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	zipped := auth.Clone()
	zipped.Set("Content-Encoding", "gzip")
	if got := nobody.Send("POST", path, &packed, zipped); got.Status != 204 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	w.Settle(w.Ana.TsName)
	ana := w.LogIn(t, server, w.Ana)
	ana.Post("/multipleDataTs", apitest.Raw("["+apitest.Item(1, "", apitest.FormNivel)+","+apitest.Item(2, "", `{"measurement":"tanque","field":"caudal"}`)+"]")).WantData(t, `{"1":3.5,"2":7}`)
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
		got := nobody.Send("POST", c.path, apitest.Raw(c.body), http.Header{"Authorization": {c.token}})
		var body struct{ Code, Message string }
		if err := json.Unmarshal(got.Body, &body); err != nil || got.Status != c.status || body.Code == "" || body.Message == "" {
			t.Errorf("%s with %q: %d %s, want %d", c.path, c.body, got.Status, got.Body, c.status)
		}
	}
}
