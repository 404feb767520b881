package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a request's body.
const (
	maxBody  = 1 << 20 // bytes
	MaxItems = 1000    // of one array
	maxDepth = 32
)

// Decode reads a request's body, one JSON value, into v.
func Decode(r *http.Request, v any) error {
	body, err := ReadBody(r)
	if err != nil {
		return err
	}
	return DecodeJSON(body, v)
}

// ReadBody returns a request's body, at most maxBody of it.
func ReadBody(r *http.Request) ([]byte, error) {
	if err := wantsJSON(r); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, ReadProblem(err)
	}
	return body, nil
}

// DecodeJSON decodes a body after checking its bounds.
func DecodeJSON(body []byte, v any) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return Invalid("the body can't be understood: %s", JSONProblem(err))
	}
	return nil
}

// wantsJSON refuses a body of another declared type. A body without a Content-Type counts as JSON.
func wantsJSON(r *http.Request) error {
	sent := r.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(sent)
	charset := strings.ToLower(params["charset"])
	switch {
	case sent == "":
		return nil
	case err != nil, kind != "application/json", charset != "" && charset != "utf-8":
		return Refuse(http.StatusUnsupportedMediaType, "the body has to be application/json")
	}
	return nil
}

// ReadProblem turns an error of reading a body into an answer.
func ReadProblem(err error) error {
	if errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return &Failure{Status: http.StatusRequestTimeout, Messages: []string{"the body did not arrive"}, Cause: err}
}

// checkJSON checks a body against the bounds before it is decoded.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return Invalid("the body is not UTF-8")
	}
	if depth(body) > maxDepth {
		return Invalid("the body is nested more than %d deep", maxDepth)
	}
	if !json.Valid(body) || string(bytes.TrimSpace(body)) == "null" {
		return Invalid("the body is not one JSON value, an array or an object")
	}
	return nil
}

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

// JSONProblem describes a decoding error in terms of the request.
func JSONProblem(err error) string {
	kind, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
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
	path := slices.DeleteFunc(strings.Split(kind.Field, "."), func(name string) bool {
		return name == "" || unicode.IsUpper(rune(name[0])) // an embedded struct, which the request knows nothing of
	})
	return fmt.Sprintf("%s has to be %s, not %s", cmp.Or(strings.Join(path, "."), "it"), want, kind.Value)
}

// AtMost refuses arrays of more than MaxItems items.
func AtMost(what string, n int) error {
	if n > MaxItems {
		return Invalid("%s holds %d items, at most %d are allowed", what, n, MaxItems)
	}
	return nil
}
