package monitor

import (
	"net/http"
	"net/url"
	"strings"

	"tsmon/api/web"
)

const (
	// truncatedHeader names the series of which older points are left out, URL-encoded
	// and separated by commas.
	truncatedHeader = "X-Tsmon-Truncated"
	// problemsHeader says what has no value because it can't have one: for each an id,
	// = and why, URL-encoded and separated by commas.
	problemsHeader = "X-Tsmon-Problems"
	// maxHeader bounds each header, in bytes; * replaces the rest.
	maxHeader = 4 << 10
)

// setKeys sets a header to a list of texts.
func setKeys(h http.Header, name string, keys []string) {
	text := ""
	for _, key := range keys {
		text = appendKey(text, url.QueryEscape(key))
	}
	if text != "" {
		h.Set(name, text)
	}
}

// appendKey appends an encoded text to those of a header.
func appendKey(text, key string) string {
	switch {
	case text == "":
	case text[len(text)-1] == '*':
		return text
	default:
		text += ","
	}
	if len(text)+len(key) > maxHeader {
		return text + "*"
	}
	return text + key
}

// problems says what is wrong with some items of a request, as the header has it.
type problems struct{ text string }

func (p *problems) add(id, problem string) {
	const most = 300 // bytes of one problem, so that others are named too
	if len(problem) > most {
		problem = strings.ToValidUTF8(problem[:most], "") + "…"
	}
	p.text = appendKey(p.text, url.QueryEscape(id)+"="+url.QueryEscape(problem))
}

// SetHeader implements web.Header.
func (p problems) SetHeader(h http.Header) {
	if p.text != "" {
		h.Set(problemsHeader, p.text)
	}
}

// log adds the problems to the request's line in the log.
func (p problems) log(r *http.Request) { web.NoteOf(r).Problems = p.text }
