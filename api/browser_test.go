package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tsmon/api/apitest"
	"tsmon/store/servertest"
)

// page does what the web client does: it logs in, keeps the token in a cookie,
// and polls with credentials. What it saw is in window.seen.
const page = `<!DOCTYPE html><title>scada</title><script>
const base = %q, login = %s;
async function run() {
	const ask = async (method, path, body, token) => {
		const headers = {"Content-Type": "application/json", "Accept": "application/json"};
		if (token) headers.Authorization = "Bearer " + token;
		const answer = await fetch(base + path, {method, headers, body: body && JSON.stringify(body), credentials: "include"});
		return {status: answer.status, body: await answer.json(), id: answer.headers.get("X-Request-Id")};
	};
	const seen = {};
	seen.login = await ask("POST", "/loginPartner", login);
	document.cookie = "token=" + seen.login.body.data;
	seen.variables = await ask("GET", "/getVarsTs", null, seen.login.body.data);
	seen.polls = [];
	for (let i = 0; i < 3; i++)
		seen.polls.push(await ask("POST", "/api/multipleDataTs", [{dataTs: {id: 1, name: "Nivel", unit: "m", varsTs: {measurement: "tanque", field: "nivel"}}}], seen.login.body.data));
	seen.cookieAlone = await ask("GET", "/getAllMenu");
	const form = new FormData();
	form.append("file", new Blob(["a,b\n1,2\n"], {type: "text/csv"}), "datos.csv");
	const upload = await fetch(base + "/upload", {method: "POST", headers: {accesskey: login.access, secretkey: login.secret}, body: form, credentials: "include"});
	seen.upload = {status: upload.status, body: await upload.json()};
	return seen;
}
run().then(seen => window.seen = JSON.stringify(seen), error => window.seen = JSON.stringify({error: String(error)}));
</script>`

// TestBrowser lets a page of another origin work in Chromium.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser is slow under the race detector")
	}
	binary := servertest.Chromium(t)
	w := apitest.Embedded(t)
	apitest.WriteNetwork(t, w)
	var server *httptest.Server
	pages := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		credentials := map[string]string{"email": w.Ana.Email, "tokenApp": w.Ana.TokenApp, "schemaName": w.Ana.Schema, "ts_name": w.Ana.TsName,
			"access": w.Uploads.Access, "secret": w.Uploads.Secret}
		text, err := json.Marshal(credentials)
		if err != nil {
			t.Error(err)
		}
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, page, server.URL, text)
	}))
	t.Cleanup(pages.Close)
	w.Origins = []string{pages.URL}
	server = w.Serve(t)

	type result struct {
		Status int
		Body   json.RawMessage
		ID     string
	}
	var seen struct {
		Error                                 string
		Login, Variables, CookieAlone, Upload result
		Polls                                 []result
	}
	visit(t, binary, pages.URL, &seen)
	if seen.Error != "" || seen.Login.Status != 200 || seen.Login.ID == "" || seen.Variables.Status != 200 || seen.Upload.Status != 200 || len(seen.Polls) != 3 {
		t.Fatalf("the page saw %+v", seen)
	}
	for _, poll := range seen.Polls {
		if string(poll.Body) != `{"data":{"1":6}}` {
			t.Errorf("a poll gave %d %s", poll.Status, poll.Body)
		}
	}
	if seen.CookieAlone.Status != 401 {
		t.Errorf("with its cookie alone the page got %d", seen.CookieAlone.Status)
	}

	// A page whose origin nobody listed learns nothing.
	w.Origins = nil
	server = w.Serve(t)
	seen.Error = ""
	visit(t, binary, pages.URL, &seen)
	if seen.Error == "" {
		t.Error("a page of an unknown origin could read answers")
	}
}

// visit opens a page and decodes what it saw.
func visit(t *testing.T, binary, address string, seen any) {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(binary), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	ctx, end := chromedp.NewContext(ctx)
	defer end()
	_, err := chromedp.Run(ctx, chromedp.Navigate(address))
	if err == nil {
		var text string
		if text, err = chromedp.Run(ctx, chromedp.Poll[string]("window.seen")); err == nil {
			err = json.Unmarshal([]byte(text), seen)
		}
	}
	if err == nil {
		err = chromedp.Cancel(ctx) // waits for the browser's end
	}
	if err != nil {
		t.Fatal(err)
	}
}
