package monitor_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/store/series"
)

// packed compresses text with gzip.
func packed(tb testing.TB, text string) string {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// hostileWrite is a request to write and its expected refusal.
type hostileWrite struct {
	path   string
	header http.Header
	body   string
	status int
	code   string
}

func hostileWrites(t *testing.T, w *apitest.World) map[string]hostileWrite {
	at := "/v2/write?org=o&bucket=" + w.Ana.TsName
	token := http.Header{"Authorization": {"Token " + w.WriteToken}}
	gz := http.Header{"Authorization": token["Authorization"], "Content-Encoding": {"gzip"}}
	line := "nuevo v=1"
	zipped := packed(t, line+"\n")
	type header = http.Header
	bomb := strings.Repeat("# "+strings.Repeat("x", 64<<10)+"\n", 1100) // 69 MiB of comments
	return map[string]hostileWrite{
		"no token":         {at, nil, line, 401, "unauthorized"},
		"an empty one":     {at, header{"Authorization": {"Token "}}, line, 401, "unauthorized"},
		"the scheme alone": {at, header{"Authorization": {"Token"}}, line, 401, "unauthorized"},
		"a wrong one":      {at, header{"Authorization": {"Token " + w.WriteToken + "x"}}, line, 401, "unauthorized"},
		"Basic":            {at, header{"Authorization": {"Basic " + w.WriteToken}}, line, 401, "unauthorized"},
		"in the address":   {at + "&token=" + w.WriteToken + "&p=" + w.WriteToken, nil, line, 401, "unauthorized"},
		"keys of uploads":  {at, header{"Accesskey": {w.Uploads.Access}, "Secretkey": {w.Uploads.Secret}}, line, 401, "unauthorized"},
		"no bucket":        {"/v2/write?org=o", token, line, 404, "not found"},
		"no such bucket":   {"/v2/write?org=o&bucket=nothing", token, line, 404, "not found"},
		"an own bucket":    {"/v2/write?org=o&bucket=_internal", token, line, 404, "not found"},
		"two buckets":      {"/v2/write?org=o&bucket=nothing&bucket=" + w.Ana.TsName, token, line, 404, "not found"},
		"its schema":       {"/v2/write?org=o&bucket=" + w.Ana.Schema, token, line, 404, "not found"},
		"a bad precision":  {at + "&precision=h", token, line, 400, "invalid"},
		"an odd precision": {at + "&precision=ns%00", token, line, 400, "invalid"},
		"no gzip":          {at, gz, line, 400, "invalid"},
		"nothing as gzip":  {at, gz, "", 400, "invalid"},
		"half of it":       {at, gz, zipped[:len(zipped)/2], 400, "invalid"},
		"without its end":  {at, gz, zipped[:len(zipped)-4], 400, "invalid"},
		"a wrong checksum": {at, gz, zipped[:len(zipped)-8] + "\x00\x00\x00\x00" + zipped[len(zipped)-4:], 400, "invalid"},
		"a wrong block":    {at, gz, zipped[:10] + "\xff\xff\xff\xff" + zipped[14:], 400, "invalid"},
		"more after it":    {at, gz, zipped + "more", 400, "invalid"},
		"brotli":           {at, header{"Authorization": token["Authorization"], "Content-Encoding": {"br"}}, line, 400, "invalid"},
		"gzip twice":       {at, header{"Authorization": token["Authorization"], "Content-Encoding": {"gzip, gzip"}}, packed(t, zipped), 400, "invalid"},
		"a gzip bomb":      {at, gz, packed(t, bomb), 413, "request too large"},
		"a line of 2 MiB":  {at, gz, packed(t, strings.Repeat("a", 2<<20)), 413, "request too large"},
		"rubbish":          {at, token, "rubbish", 400, "invalid"},
		"JSON":             {at, token, `{"measurement":"x"}`, 400, "invalid"},
		"not UTF-8":        {at, token, "nue\xffvo v=1", 400, "invalid"},
		"NUL":              {at, token, "nue\x00vo v=1", 400, "invalid"},
		"no field":         {at, token, "nuevo", 400, "invalid"},
		"no value":         {at, token, "nuevo v=", 400, "invalid"},
		"NaN":              {at, token, "nuevo v=NaN", 400, "invalid"},
		"infinity":         {at, token, "nuevo v=1e999", 400, "invalid"},
		"past 2^63":        {at, token, "nuevo v=9223372036854775808i", 400, "invalid"},
		"an open quote":    {at, token, `nuevo v="x`, 400, "invalid"},
		"a wrong time":     {at, token, "nuevo v=1 yesterday", 400, "invalid"},
		"the year 2300":    {at + "&precision=s", token, "nuevo v=1 10413792000", 400, "invalid"},
		"of far away":      {at + "&precision=s", token, "nuevo v=1 9223372036854775807", 400, "invalid"},
		"an own name":      {at, token, "_internal v=1", 400, "invalid"},
		"the second line":  {at, token, "rubbish\nnuevo v=1", 400, "invalid"},
		"another kind":     {at, token, "tanque,sitio=norte nivel=true", 422, "unprocessable entity"},
		"text for numbers": {at, token, `tanque nivel="6"`, 422, "unprocessable entity"},
		"two kinds":        {at, token, "doble v=1\ndoble v=true", 422, "unprocessable entity"},
	}
}

func TestHostileLines(t *testing.T) { testHostileLines(t, apitest.Embedded(t)) }

func testHostileLines(t *testing.T, w *apitest.World) {
	apitest.WriteNetwork(t, w)
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	kinds := apitest.Must[map[series.Key]series.Kind](t)(w.Series.Fields(t.Context(), w.Ana.TsName))
	for name, c := range hostileWrites(t, w) {
		got := nobody.Send("POST", c.path, apitest.Raw(c.body), c.header)
		var answer struct{ Code, Message string }
		apitest.ReadJSON(t, got.Body, &answer)
		if got.Status != c.status || answer.Code != c.code || answer.Message == "" || len(got.Body) > 1000 {
			t.Errorf("%s: %d %.300s, want %d %s", name, got.Status, got.Body, c.status, c.code)
		}
		for _, detail := range []string{w.WriteToken, "127.0.0.1", "write to ", "gzip:", "flate:", "EOF"} {
			if strings.Contains(answer.Message, detail) {
				t.Errorf("%s: says %q: %s", name, detail, got.Body)
			}
		}
	}
	if got := apitest.Must[map[series.Key]series.Kind](t)(w.Series.Fields(t.Context(), w.Ana.TsName)); len(got) > len(kinds)+1 { // doble
		t.Errorf("the fields are %v, were %v", got, kinds)
	}
	// The network is as it was, and its writer is heard.
	at, token := "/v2/write?org=o&bucket="+w.Ana.TsName, http.Header{"Authorization": {"Token " + w.WriteToken}}
	now := fmt.Sprint(w.Clock.Now().UnixMilli())
	if got := nobody.Send("POST", at+"&precision=ms", apitest.Raw("tanque nivel=8 "+now), token); got.Status != 204 || len(got.Body) > 0 {
		t.Errorf("a good line: %d %s", got.Status, got.Body)
	}
	for database, want := range map[string]float64{w.Ana.TsName: 8, w.Otro.TsName: 777} {
		values := apitest.Must[[]series.Value](t)(w.Series.Current(t.Context(), database, []series.Want{{Key: series.Key{Measurement: "tanque", Field: "nivel"}}}))
		if values[0].Number != want {
			t.Errorf("%s holds %v, want %v", database, values[0], want)
		}
	}
}

// TestHostileLinesWithoutToken checks that a server without a token accepts none.
func TestHostileLinesWithoutToken(t *testing.T) {
	w := apitest.Embedded(t)
	w.WriteToken = ""
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for _, sent := range []string{"Token ", "Bearer ", "Token", "Token x", "Token null"} {
		if got := nobody.Send("POST", "/v2/write?bucket="+w.Ana.TsName, apitest.Raw("a b=1"), http.Header{"Authorization": {sent}}); got.Status != 401 {
			t.Errorf("%q: %d", sent, got.Status)
		}
	}
}

// TestExpiredLines writes a value that is older than the tenant's retention with one that
// is not.
func TestExpiredLines(t *testing.T) {
	w := apitest.Embedded(t)
	apitest.WriteNetwork(t, w)
	if err := w.Series.Keep(t.Context(), w.Ana.TsName, series.Keeping{Retention: 48 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	body := fmt.Sprintf("viejo v=1 %d\nviejo v=2 %d", now.AddDate(0, 0, -9).UnixNano(), now.UnixNano())
	got := apitest.Client{TB: t, Base: w.Serve(t).URL}.Send("POST", "/v2/write?bucket="+w.Ana.TsName, apitest.Raw(body), http.Header{"Authorization": {"Token " + w.WriteToken}})
	if got.Status != http.StatusUnprocessableEntity || !strings.Contains(string(got.Body), "older than the database keeps values") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	key := series.Key{Measurement: "viejo", Field: "v"}
	values, err := w.Series.Current(t.Context(), w.Ana.TsName, []series.Want{{Key: key}, {Key: key, Aggregate: series.Sum, Window: 20 * 24 * time.Hour}})
	if err != nil || values[0].Number != 2 || values[1].Number != 2 {
		t.Errorf("%+v, %v", values, err)
	}
}
