package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Bounds of a request's body.
const (
	maxBody  = 1 << 20 // bytes
	maxItems = 1000    // of one array
	maxDepth = 32
)

// decode reads a request's body, one JSON value, into v.
func decode(r *http.Request, v any) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	return decodeJSON(body, v)
}

// readBody returns a request's body as it came.
func readBody(r *http.Request) ([]byte, error) {
	if err := wantsJSON(r); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, unread(err)
	}
	return body, nil
}

// decodeJSON decodes a body that is within the bounds.
func decodeJSON(body []byte, v any) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return invalid("the body can't be understood: %s", jsonProblem(err))
	}
	return nil
}

// wantsJSON refuses a body that says that it is something else. One that does
// not say what it is, is taken for JSON.
func wantsJSON(r *http.Request) error {
	sent := r.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(sent)
	charset := strings.ToLower(params["charset"])
	switch {
	case sent == "":
		return nil
	case err != nil, kind != "application/json", charset != "" && charset != "utf-8":
		return refuse(http.StatusUnsupportedMediaType, "the body has to be application/json")
	}
	return nil
}

// unread says why a body could not be read.
func unread(err error) error {
	if errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return &failure{status: http.StatusRequestTimeout, messages: []string{"the body did not arrive"}, cause: err}
}

// checkJSON holds a body to the bounds before anything is made of it.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return invalid("the body is not UTF-8")
	}
	if depth(body) > maxDepth {
		return invalid("the body is nested more than %d deep", maxDepth)
	}
	if !json.Valid(body) || string(bytes.TrimSpace(body)) == "null" {
		return invalid("the body is not one JSON value, an array or an object")
	}
	return nil
}

// depth is how deep arrays and objects are nested in each other.
func depth(text []byte) int {
	now, most := 0, 0
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			now++
			most = max(most, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return most
}

// jsonProblem says what is wrong in terms of the request.
func jsonProblem(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error()
	}
	want := kind.Type.String()
	switch {
	case strings.HasPrefix(want, "[]"):
		want = "an array"
	case strings.HasPrefix(want, "int"), strings.HasPrefix(want, "float"):
		want = "a number that fits"
	case want == "string":
		want = "a string"
	case want == "bool":
		want = "true or false"
	default:
		want = "an object"
	}
	if kind.Field == "" {
		return fmt.Sprintf("it has to be %s, not %s", want, kind.Value)
	}
	return fmt.Sprintf("%s has to be %s, not %s", kind.Field, want, kind.Value)
}

// atMost refuses arrays that are too long.
func atMost(what string, n int) error {
	if n > maxItems {
		return invalid("%s holds %d items, at most %d are allowed", what, n, maxItems)
	}
	return nil
}
