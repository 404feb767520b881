package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// secretsOf are what no log may hold, by what they are.
func secretsOf(w *world, tokens map[string]string) map[string]string {
	secrets := map[string]string{
		"ana's partner token": w.ana.TokenApp, "eva's partner token": w.eva.TokenApp, "a wrong partner token": "a-guess-of-somebody",
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
func chatter(t *testing.T, w *world, ana client) {
	t.Helper()
	nobody := client{tb: t, base: ana.base}
	var jobs []func()
	say := func(c client, r route, header http.Header) { jobs = append(jobs, func() { c.attempt(r, header) }) }
	wrong := w.ana
	wrong.TokenApp = "a-guess-of-somebody"
	odd := http.Header{"X-Odd": {"value-of-a-header"}, "Cookie": {"token=" + ana.token + "; x=value-of-a-cookie"}, "Referer": {"https://u:password-of-a-url@h/?token=" + ana.token}, "User-Agent": {"value-of-a-header"}, "X-Forwarded-For": {"value-of-a-header"}}
	for _, r := range []route{
		{"POST", "/loginPartner", w.eva.body(t)}, {"POST", "/loginPartner", wrong.body(t)}, {"POST", "/loginPartner", w.ana.body(t) + "x"}, {"POST", "/loginPartner", `{"email":{"tokenApp":"` + w.ana.TokenApp + `"}}`},
		{"POST", "/saveDiagram", `{"diagram":{"title":"title-of-a-diagram"}}`}, {"POST", "/saveDiagram", `{"diagram":{"title":["title-of-a-diagram"]}}`}, {"POST", "/saveDiagram", `{"diagram":{"id":99,"title":"title-of-a-diagram"}}`},
		{"POST", "/sendConfigMQTT", `{"topic":"` + w.ana.Schema + `/x","data":{"k":"payload-of-a-message"}}`}, {"POST", "/sendConfigMQTT", `{"topic":"` + w.ana.Schema + `/x","data":"payload-of-a-message"}`},
		{"GET", "/getAllMenu?token=" + ana.token + "&q=value-of-a-query", ""}, {"GET", "/getPermission?id=value-of-a-query&type=value-of-a-query", ""}, {"GET", "/nothing/value-of-a-query", ""}, {"BREW", "/dataTs?q=value-of-a-query", ""},
		{"GET", "/metrics?key=" + w.MetricsKey, ""}, {"POST", "/v2/write?bucket=" + w.ana.TsName, "line-of-a-writer"}, {"POST", "/v2/write?bucket=value-of-a-query&token=" + w.WriteToken, "line-of-a-writer v=1"},
	} {
		say(ana, r, nil)
		say(nobody, r, odd)
	}
	for _, sent := range []string{
		"Bearer " + ana.token + "x", "Bearer " + ana.token[:len(ana.token)-5], "Bearer " + w.ana.TokenApp, "Basic " + base64.StdEncoding.EncodeToString([]byte(w.ana.Email+":"+w.ana.TokenApp)), w.ana.TokenApp,
		"Token " + w.WriteToken, "Bearer " + w.MetricsKey, "Bearer x." + w.ana.TokenApp + ".y",
	} {
		for _, r := range []route{{"GET", "/getAllMenu", ""}, {"GET", "/metrics", ""}, {"POST", "/v2/write?bucket=" + w.ana.TsName, "line-of-a-writer v=x"}, {"POST", "/v2/write?bucket=" + w.ana.TsName, "nuevo v=1"}} {
			say(nobody, r, http.Header{"Authorization": {sent}})
		}
	}
	named := strings.Replace(filePart("content-of-a-file"), "a.png", "name-of-a-file.png", 1)
	for _, body := range []string{named + "--b--\r\n", named, part("secretkey: "+w.Uploads.Secret+"\r\nnonsense "+w.Uploads.Secret, "x") + "--b--\r\n", "content-of-a-file", part(`Content-Disposition: form-data; name="name-of-a-file"`, "content-of-a-file") + "--b--\r\n"} {
		for _, header := range []map[string]string{nil, {"Secretkey": w.Uploads.Access}, {"Content-Type": "multipart/form-data; boundary=" + w.Uploads.Secret}, {"Content-Type": w.Uploads.Secret}} {
			say(nobody, route{"POST", "/upload", body}, uploader(w, header))
		}
	}
	together(len(jobs), func(i int) { jobs[i]() })
}

func testSecrets(t *testing.T, w *world) {
	grants(t, w)
	network(t, w)
	w.MetricsKey = "metrics-of-the-test"
	f := unsteady(w)
	server := w.serve(t)
	ana, eva := w.as(t, server, w.ana), w.as(t, server, w.eva)
	secrets := secretsOf(w, map[string]string{"ana's JWT": ana.token, "eva's JWT": eva.token})
	chatter(t, w, ana)
	for _, fault := range []func(context.Context) error{
		func(context.Context) error { return errors.New("reason-of-a-backend") },
		func(context.Context) error { panic("reason-of-a-backend") },
	} {
		f.set(fault, "records.Audit")
		chatter(t, w, ana)
		f.set(fault, "records.", "objects.", "messages.", "series.Series", "series.Write")
		chatter(t, w, ana)
		w.now.move(2 * time.Minute)
		chatter(t, w, ana) // and nobody is remembered
	}
	text := w.log.String()
	for name, secret := range secrets {
		for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s is in the log: %s", name, text[max(0, i-300):min(len(text), i+300)])
			}
		}
	}
	for _, told := range []string{`"route":"/loginPartner"`, `"route":"/upload"`, `"route":"/v2/write"`, `"status":401`, `"status":500`, `"schema":"` + w.ana.Schema + `"`, "audit row lost", "reason-of-a-backend", `"msg":"panic"`} {
		if !strings.Contains(text, told) {
			t.Errorf("the log does not tell of %s", told)
		}
	}
}
