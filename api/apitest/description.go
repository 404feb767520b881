package apitest

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

	"tsmon/api"
	"tsmon/api/monitor"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// descriptionText asks a server for its description, which depends on no back end.
func descriptionText() ([]byte, error) {
	server := api.New(api.Options{Options: monitor.Options{
		Objects: struct{ object.Store }{}, Records: struct{ record.Store }{}, Series: struct{ series.Store }{},
		Messages: struct{ monitor.Publisher }{}, Log: slog.New(slog.DiscardHandler),
	}})
	defer server.Close()
	got := httptest.NewRecorder()
	server.Handler().ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	if got.Code != http.StatusOK {
		return nil, fmt.Errorf("/openapi.json: %d %s", got.Code, got.Body)
	}
	return got.Body.Bytes(), nil
}

// Description is the OpenAPI description as clients get it, with a router of its
// operations.
type Description struct {
	*openapi3.T
	routers.Router
}

// LoadDescription returns the description, which it loads once.
var LoadDescription = sync.OnceValues(func() (Description, error) {
	text, err := descriptionText()
	if err != nil {
		return Description{}, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return Description{}, err
	}
	router, err := gorillamux.NewRouter(doc)
	return Description{doc, router}, err
})

// checkOptions don't change a request, treat a status that is not described as a mistake, and
// leave security to TestDescribedSecurity.
var checkOptions = openapi3filter.Options{
	IncludeResponseStatus: true,
	SkipSettingDefaults:   true,
	AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
}

// CheckDescribed reports an answer that differs from the description, and a request
// that succeeded although the description does not allow it.
func CheckDescribed(tb testing.TB, r *http.Request, a Answer) {
	tb.Helper()
	d, err := LoadDescription()
	if err != nil {
		tb.Errorf("the description can't be used: %s", brief(err))
		return
	}
	route, params, err := d.FindRoute(r)
	if err != nil {
		if err := d.checkElsewhere(r, a); err != nil {
			tb.Errorf("%s %s, which is not described: %d: %s", r.Method, r.URL.Path, a.Status, brief(err))
		}
		return
	}
	request := &openapi3filter.RequestValidationInput{
		Request: r.Clone(r.Context()), PathParams: params, Route: route, Options: &checkOptions,
	}
	if err := checkAnswer(request, a); err != nil {
		tb.Errorf("%s %s: the answer %d is not as described: %s", r.Method, route.Path, a.Status, brief(err))
	}
	if a.Status/100 != 2 {
		return
	}
	if err := checkRequest(request); err != nil {
		tb.Errorf("%s %s: the server took a request that is not described: %s", r.Method, route.Path, brief(err))
	}
}

// checkElsewhere checks that a request without a described operation failed.
func (d Description) checkElsewhere(r *http.Request, a Answer) error {
	switch {
	case r.Method == http.MethodOptions && a.Status == http.StatusNoContent: // a preflight
		return nil
	case a.Status != http.StatusNotFound && a.Status != http.StatusMethodNotAllowed:
		return errors.New("it should be 404 or 405")
	case r.Method == http.MethodHead:
		return nil
	case a.Header.Get("Content-Type") != "application/json":
		return fmt.Errorf("Content-Type is %q", a.Header.Get("Content-Type"))
	}
	var body any
	if err := json.Unmarshal(a.Body, &body); err != nil {
		return err
	}
	return d.Components.Schemas["Failures"].Value.VisitJSON(body)
}

// checkAnswer checks status, headers and body. Package openapi3filter ignores answers to HEAD
// and 304.
func checkAnswer(request *openapi3filter.RequestValidationInput, a Answer) error {
	response := request.Route.Operation.Responses.Status(a.Status)
	if response == nil {
		return errors.New("the status is not described")
	}
	for name, header := range response.Value.Headers {
		if header.Value.Required && a.Header.Get(name) == "" {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if len(a.Body) > 0 && len(response.Value.Content) == 0 {
		return errors.New("it has a body")
	}
	if a.Header.Get("Content-Encoding") == "gzip" && a.Status == http.StatusOK && len(a.Body) > 0 {
		z, err := gzip.NewReader(bytes.NewReader(a.Body))
		if err == nil {
			a.Body, err = io.ReadAll(z)
		}
		if err != nil {
			return err
		}
	}
	return openapi3filter.ValidateResponse(request.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Options: &checkOptions,
		Status: a.Status, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)),
	})
}

// checkRequest checks parameters and body. It skips a body that can't be read again.
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
