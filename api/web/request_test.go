package web

import (
	"encoding/json"
	"testing"
)

// TestJSONProblem wants the names of the request in errors, and none of Go's.
func TestJSONProblem(t *testing.T) {
	type Embedded struct {
		Lines []struct {
			ID int64 `json:"id"`
		} `json:"lines"`
	}
	for body, want := range map[string]string{
		`[]`:                       "it has to be an object, not array",
		`{"name": 1}`:              "name has to be a string, not number",
		`{"lines": 1}`:             "lines has to be an array, not number",
		`{"lines": [{"id": "x"}]}`: "lines.id has to be a number that fits, not string",
		`{`:                        "unexpected end of JSON input",
	} {
		var into struct {
			Name string `json:"name"`
			Embedded
		}
		if got := JSONProblem(json.Unmarshal([]byte(body), &into)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
