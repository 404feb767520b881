package monitor_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
)

// secretsOf returns what no log may contain, by description.
func secretsOf(w *apitest.World, tokens map[string]string) map[string]string {
	secrets := map[string]string{
		"ana's partner token": w.Ana.TokenApp, "eva's partner token": w.Eva.TokenApp, "a wrong partner token": "a-guess-of-somebody",
		"the access key": w.Uploads.Access, "the secret key": w.Uploads.Secret, "the token of writes": w.WriteToken, "the key of metrics": w.MetricsKey,
		"a title": "title-of-a-diagram", "a payload": "payload-of-a-message", "a file's content": "content-of-a-file", "a file's name": "name-of-a-file", "a line": "line-of-a-writer",
		"a query": "value-of-a-query", "a header": "value-of-a-header", "a cookie": "value-of-a-cookie", "a password in an address": "password-of-a-url",
	}
	for name, text := range tokens {
		for i, segment := range strings.Split(text, ".") {
			if i > 0 { // the header alone says nothing
				secrets["a segment of "+name] = segment
			}
		}
	}
	return secrets
}

// chatter sends requests of all kinds that carry secrets, good and bad ones.
func chatter(t *testing.T, w *apitest.World, ana apitest.Client) {
	t.Helper()
	nobody := apitest.Client{TB: t, Base: ana.Base}
	var jobs []func()
	say := func(c apitest.Client, r apitest.Route, header http.Header) {
		jobs = append(jobs, func() { c.Attempt(r, header) })
	}
	wrong := w.Ana
	wrong.TokenApp = "a-guess-of-somebody"
	odd := http.Header{"X-Odd": {"value-of-a-header"}, "Cookie": {"token=" + ana.Token + "; x=value-of-a-cookie"}, "Referer": {"https://u:password-of-a-url@h/?token=" + ana.Token}, "User-Agent": {"value-of-a-header"}, "X-Forwarded-For": {"value-of-a-header"}}
	for _, r := range []apitest.Route{
		apitest.NewRoute("POST", "/loginPartner", w.Eva.JSON(t)), apitest.NewRoute("POST", "/loginPartner", wrong.JSON(t)), apitest.NewRoute("POST", "/loginPartner", w.Ana.JSON(t)+"x"), apitest.NewRoute("POST", "/loginPartner", `{"email":{"tokenApp":"`+w.Ana.TokenApp+`"}}`),
		apitest.NewRoute("POST", "/saveDiagram", `{"diagram":{"title":"title-of-a-diagram"}}`), apitest.NewRoute("POST", "/saveDiagram", `{"diagram":{"title":["title-of-a-diagram"]}}`), apitest.NewRoute("POST", "/saveDiagram", `{"diagram":{"id":99,"title":"title-of-a-diagram"}}`),
		apitest.NewRoute("POST", "/sendConfigMQTT", `{"topic":"`+w.Ana.Schema+`/x","data":{"k":"payload-of-a-message"}}`), apitest.NewRoute("POST", "/sendConfigMQTT", `{"topic":"`+w.Ana.Schema+`/x","data":"payload-of-a-message"}`),
		apitest.NewRoute("GET", "/getAllMenu?token="+ana.Token+"&q=value-of-a-query", ""), apitest.NewRoute("GET", "/getPermission?id=value-of-a-query&type=value-of-a-query", ""), apitest.NewRoute("GET", "/nothing/value-of-a-query", ""), apitest.NewRoute("BREW", "/dataTs?q=value-of-a-query", ""),
		apitest.NewRoute("GET", "/metrics?key="+w.MetricsKey, ""), apitest.NewRoute("POST", "/v2/write?bucket="+w.Ana.TsName, "line-of-a-writer"), apitest.NewRoute("POST", "/v2/write?bucket=value-of-a-query&token="+w.WriteToken, "line-of-a-writer v=1"),
	} {
		say(ana, r, nil)
		say(nobody, r, odd)
	}
	for _, sent := range []string{
		"Bearer " + ana.Token + "x", "Bearer " + ana.Token[:len(ana.Token)-5], "Bearer " + w.Ana.TokenApp, "Basic " + base64.StdEncoding.EncodeToString([]byte(w.Ana.Email+":"+w.Ana.TokenApp)), w.Ana.TokenApp,
		"Token " + w.WriteToken, "Bearer " + w.MetricsKey, "Bearer x." + w.Ana.TokenApp + ".y",
	} {
		for _, r := range []apitest.Route{apitest.NewRoute("GET", "/getAllMenu", ""), apitest.NewRoute("GET", "/metrics", ""), apitest.NewRoute("POST", "/v2/write?bucket="+w.Ana.TsName, "line-of-a-writer v=x"), apitest.NewRoute("POST", "/v2/write?bucket="+w.Ana.TsName, "nuevo v=1")} {
			say(nobody, r, http.Header{"Authorization": {sent}})
		}
	}
	named := strings.Replace(apitest.FilePart("content-of-a-file"), "a.png", "name-of-a-file.png", 1)
	for _, body := range []string{named + "--b--\r\n", named, apitest.FormPart("secretkey: "+w.Uploads.Secret+"\r\nnonsense "+w.Uploads.Secret, "x") + "--b--\r\n", "content-of-a-file", apitest.FormPart(`Content-Disposition: form-data; name="name-of-a-file"`, "content-of-a-file") + "--b--\r\n"} {
		for _, header := range []map[string]string{nil, {"Secretkey": w.Uploads.Access}, {"Content-Type": "multipart/form-data; boundary=" + w.Uploads.Secret}, {"Content-Type": w.Uploads.Secret}} {
			say(nobody, apitest.NewRoute("POST", "/upload", body), apitest.UploadHeader(w, header))
		}
	}
	apitest.Concurrently(len(jobs), func(i int) { jobs[i]() })
}

func TestSecrets(t *testing.T) { testSecrets(t, apitest.Embedded(t)) }

func testSecrets(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	apitest.WriteNetwork(t, w)
	w.MetricsKey = "metrics-of-the-test"
	f := apitest.Unsteady(w)
	server := w.Serve(t)
	ana, eva := w.LogIn(t, server, w.Ana), w.LogIn(t, server, w.Eva)
	secrets := secretsOf(w, map[string]string{"ana's JWT": ana.Token, "eva's JWT": eva.Token})
	chatter(t, w, ana)
	for _, fault := range []func(context.Context) error{
		func(context.Context) error { return errors.New("reason-of-a-backend") },
		func(context.Context) error { panic("reason-of-a-backend") },
	} {
		f.Set(fault, "records.Audit")
		chatter(t, w, ana)
		f.Set(fault, "records.", "objects.", "messages.", "series.Series", "series.Write")
		chatter(t, w, ana)
		w.Clock.Move(2 * time.Minute)
		chatter(t, w, ana) // and nobody is remembered
	}
	text := w.Logged.String()
	for name, secret := range secrets {
		for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s is in the log: %s", name, text[max(0, i-300):min(len(text), i+300)])
			}
		}
	}
	for _, want := range []string{`"route":"/loginPartner"`, `"route":"/upload"`, `"route":"/v2/write"`, `"status":401`, `"status":500`, `"schema":"` + w.Ana.Schema + `"`, "audit row lost", "reason-of-a-backend", `"msg":"panic"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not contain %s", want)
		}
	}
}
