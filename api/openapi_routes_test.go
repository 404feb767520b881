package api

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"tsmon/api/monitor"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// TestDescriptionCoversTheRoutes compares the routes with the description, both ways.
func TestDescriptionCoversTheRoutes(t *testing.T) {
	server := New(Options{Options: monitor.Options{
		Objects: struct{ object.Store }{}, Records: struct{ record.Store }{}, Series: struct{ series.Store }{},
		Messages: struct{ monitor.Publisher }{}, Log: slog.New(slog.DiscardHandler),
	}})
	defer server.Close()
	text, err := descriptionJSON()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	routes, found := server.routes(), map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			pattern := routes.Find(chi.NewRouteContext(), method, path)
			if pattern == "" {
				t.Errorf("%s %s is described, but no route", method, path)
			}
			found[method+" "+pattern] = true
			if op.Summary == "" || op.Description == "" {
				t.Errorf("%s %s has no summary or no description", method, path)
			}
		}
	}
	if err := chi.Walk(routes, func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if !found[method+" "+pattern] {
			t.Errorf("%s %s is a route, but not described", method, pattern)
		}
		return nil
	}); err != nil || len(found) == 0 {
		t.Errorf("%d operations: %v", len(found), err)
	}
}
