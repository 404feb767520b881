package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"tsmon/api/monitor"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// descriptionText asks a server for its description, which depends on no back end.
func descriptionText() ([]byte, error) {
	server := New(Options{
		Objects: struct{ object.Store }{}, Records: struct{ record.Store }{}, Series: struct{ series.Store }{},
		Messages: struct{ monitor.Publisher }{}, Log: slog.New(slog.DiscardHandler),
	})
	defer server.Close()
	got := httptest.NewRecorder()
	server.Handler().ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	if got.Code != http.StatusOK {
		return nil, fmt.Errorf("/openapi.json: %d %s", got.Code, got.Body)
	}
	return got.Body.Bytes(), nil
}

// apiDescription is the description as clients get it, and the router of its operations.
type apiDescription struct {
	*openapi3.T
	routers.Router
}

var loadDescription = sync.OnceValues(func() (apiDescription, error) {
	text, err := descriptionText()
	if err != nil {
		return apiDescription{}, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return apiDescription{}, err
	}
	router, err := gorillamux.NewRouter(doc)
	return apiDescription{doc, router}, err
})

// checkOptions leave a request as it is, take every status for a mistake that is
// not described, and leave security to TestDescribedSecurity.
var checkOptions = openapi3filter.Options{
	IncludeResponseStatus: true,
	SkipSettingDefaults:   true,
	AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
}

// checkDescribed demands that an answer is as the description says, and that a
// request that succeeded is one that it allows.
func checkDescribed(tb testing.TB, r *http.Request, a answer) {
	tb.Helper()
	d, err := loadDescription()
	if err != nil {
		tb.Errorf("the description can't be used: %s", brief(err))
		return
	}
	route, params, err := d.FindRoute(r)
	if err != nil {
		if err := d.checkElsewhere(r, a); err != nil {
			tb.Errorf("%s %s, which is not described: %d: %s", r.Method, r.URL.Path, a.status, brief(err))
		}
		return
	}
	request := &openapi3filter.RequestValidationInput{
		Request: r.Clone(r.Context()), PathParams: params, Route: route, Options: &checkOptions,
	}
	if err := checkAnswer(request, a); err != nil {
		tb.Errorf("%s %s: the answer %d is not as described: %s", r.Method, route.Path, a.status, brief(err))
	}
	if a.status/100 != 2 {
		return
	}
	if err := checkRequest(request); err != nil {
		tb.Errorf("%s %s: the server took a request that is not described: %s", r.Method, route.Path, brief(err))
	}
}

// checkElsewhere demands that a request that no operation describes failed.
func (d apiDescription) checkElsewhere(r *http.Request, a answer) error {
	switch {
	case r.Method == http.MethodOptions && a.status == http.StatusNoContent: // a preflight
		return nil
	case a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed:
		return errors.New("it should be 404 or 405")
	case r.Method == http.MethodHead:
		return nil
	case a.header.Get("Content-Type") != "application/json":
		return fmt.Errorf("Content-Type is %q", a.header.Get("Content-Type"))
	}
	var body any
	if err := json.Unmarshal(a.body, &body); err != nil {
		return err
	}
	return d.Components.Schemas["Failures"].Value.VisitJSON(body)
}

// checkAnswer looks at status, headers and body. Of an answer to HEAD and a 304
// package openapi3filter looks at nothing.
func checkAnswer(request *openapi3filter.RequestValidationInput, a answer) error {
	response := request.Route.Operation.Responses.Status(a.status)
	if response == nil {
		return errors.New("the status is not described")
	}
	for name, header := range response.Value.Headers {
		if header.Value.Required && a.header.Get(name) == "" {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if len(a.body) > 0 && len(response.Value.Content) == 0 {
		return errors.New("it has a body")
	}
	if a.header.Get("Content-Encoding") == "gzip" && a.status == http.StatusOK && len(a.body) > 0 {
		z, err := gzip.NewReader(bytes.NewReader(a.body))
		if err == nil {
			a.body, err = io.ReadAll(z)
		}
		if err != nil {
			return err
		}
	}
	return openapi3filter.ValidateResponse(request.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Options: &checkOptions,
		Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
	})
}

// checkRequest looks at parameters and body. A body that can't be read again is
// passed over.
func checkRequest(request *openapi3filter.RequestValidationInput) error {
	options, r := checkOptions, request.Request
	request.Options = &options
	switch {
	case r.GetBody != nil:
		body, err := r.GetBody()
		if err != nil {
			return err
		}
		r.Body = body
	default:
		options.ExcludeRequestBody = r.Body != nil
	}
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json") // what such a body is taken for
	}
	return openapi3filter.ValidateRequest(r.Context(), request)
}

// brief leaves out the schema and the value, which may be very long.
func brief(err error) string {
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		return fmt.Sprintf("/%s: %.300s", strings.Join(schema.JSONPointer(), "/"), schema.Reason)
	}
	return fmt.Sprintf("%.300s", err)
}
