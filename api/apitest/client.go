package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Client sends requests as one user, or as nobody where it has no token.
type Client struct {
	TB    testing.TB
	Base  string
	Token string
}

// Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// LogIn logs a user in.
func (w *World) LogIn(tb testing.TB, server *httptest.Server, who Login) Client {
	tb.Helper()
	c := Client{TB: tb, Base: server.URL}
	got := c.Post("/loginPartner", who)
	if got.Status != http.StatusOK {
		tb.Fatalf("login of %s: %d %s", who.Email, got.Status, got.Body)
	}
	c.Token = got.Data(tb).(string)
	return c
}

// WithTB returns the client for a subtest.
func (c Client) WithTB(tb testing.TB) Client {
	c.TB = tb
	return c
}

// Send sends a request. A body that is not an io.Reader is sent as JSON.
func (c Client) Send(method, path string, body any, header http.Header) Answer {
	c.TB.Helper()
	reader, isReader := body.(io.Reader)
	if !isReader && body != nil {
		reader = bytes.NewReader(Must[[]byte](c.TB)(json.Marshal(body)))
	}
	r := Must[*http.Request](c.TB)(c.request(method, path, reader, header))
	answer := Must[Answer](c.TB)(do(r))
	CheckDescribed(c.TB, r, answer)
	return answer
}

// request returns a request of the user. header overrides the usual headers.
func (c Client) request(method, path string, body io.Reader, header http.Header) (*http.Request, error) {
	r, err := http.NewRequestWithContext(c.TB.Context(), method, c.Base+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	maps.Copy(r.Header, header)
	return r, nil
}

// NoRedirects is an HTTP client that follows no redirects.
var NoRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       5 * time.Minute,
}

func do(r *http.Request) (Answer, error) {
	got, err := NoRedirects.Do(r)
	if err != nil {
		return Answer{}, err
	}
	return readAnswer(got)
}

// readAnswer reads a response to its end and closes it.
func readAnswer(got *http.Response) (Answer, error) {
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return Answer{got.StatusCode, got.Header, body}, err
}

// Post sends a POST request; see Send.
func (c Client) Post(path string, body any) Answer {
	c.TB.Helper()
	return c.Send(http.MethodPost, path, body, nil)
}

// Get sends a GET request.
func (c Client) Get(path string) Answer {
	c.TB.Helper()
	return c.Send(http.MethodGet, path, nil, nil)
}

// Encode returns JSON as the server writes it.
func Encode(body any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(body)
	return b.Bytes(), err
}

// Raw is a body that is sent as it is.
func Raw(text string) io.Reader { return strings.NewReader(text) }

// Data returns the member data of an answer that succeeded, or ends the test.
func (a Answer) Data(tb testing.TB) any {
	tb.Helper()
	var body struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil || a.Status != http.StatusOK {
		tb.Fatalf("%d %.300s: %v", a.Status, a.Body, err)
	}
	var v any
	if err := json.Unmarshal(body.Data, &v); err != nil {
		tb.Fatalf("%.300s: %v", a.Body, err)
	}
	return v
}

// WantData checks that the answer succeeded and its data is this JSON.
func (a Answer) WantData(tb testing.TB, want string) {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(want), &v); err != nil {
		tb.Fatalf("%s: %v", want, err)
	}
	got := Must[[]byte](tb)(json.Marshal(a.Data(tb)))
	if wanted := Must[[]byte](tb)(json.Marshal(v)); !bytes.Equal(got, wanted) {
		tb.Errorf("data is\n%s, want\n%s", got, wanted)
	}
}

// WantFailure checks the status and the shape of the body that goes with it, and
// returns the messages.
func (a Answer) WantFailure(tb testing.TB, status int) string {
	tb.Helper()
	if a.Status != status {
		tb.Errorf("%d %.300s, want %d", a.Status, a.Body, status)
		return ""
	}
	var body map[string]struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	dec := json.NewDecoder(bytes.NewReader(a.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || a.Header.Get("Content-Type") != "application/json" {
		tb.Errorf("%s %.300q: %v", a.Header.Get("Content-Type"), a.Body, err)
	}
	if status == http.StatusUnauthorized {
		if e := body["error"]; len(body) != 1 || e.Code != "UNAUTHORIZED" || e.Message == "" {
			tb.Errorf("%.300s is not the body of 401", a.Body)
		}
		return body["error"].Message
	}
	var all []string
	for i := range len(body) {
		name := "error" + string('1'+rune(i))
		if i < 9 && body[name].Message == "" {
			tb.Errorf("%.300s has no %s", a.Body, name)
		}
		all = append(all, body[name].Message)
	}
	if len(all) == 0 {
		tb.Errorf("%d without a message", a.Status)
	}
	return strings.Join(all, " ")
}

// JSON returns the login as JSON.
func (l Login) JSON(tb testing.TB) string {
	tb.Helper()
	return string(Must[[]byte](tb)(json.Marshal(l)))
}

// Metric returns the value of a metric, empty if it is missing.
func (c Client) Metric(name string) string {
	c.TB.Helper()
	c.Token = MetricsKey
	for line := range strings.Lines(string(c.Get("/metrics").Body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Alarms returns how many alarms of updates are raised.
func (c Client) Alarms() (n int) {
	c.TB.Helper()
	c.Token = MetricsKey
	for line := range strings.Lines(string(c.Get("/metrics").Body)) {
		if _, value, ok := strings.Cut(line, "} "); ok && strings.HasPrefix(line, "tsmon_updates_alarms{") {
			n += Must[int](c.TB)(strconv.Atoi(strings.TrimSpace(value)))
		}
	}
	return n
}
