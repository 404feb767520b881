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

// headerList is the value of a header that lists encoded texts.
type headerList string

func (l *headerList) add(encoded string) {
	switch {
	case *l == "":
	case strings.HasSuffix(string(*l), "*"):
		return
	default:
		*l += ","
	}
	if len(*l)+len(encoded) > maxHeader {
		encoded = "*"
	}
	*l += headerList(encoded)
}

func (l headerList) set(h http.Header, name string) {
	if l != "" {
		h.Set(name, string(l))
	}
}

// problems says what is wrong with some items of a request.
type problems struct{ list headerList }

func (p *problems) add(id, problem string) {
	const most = 300 // bytes of one problem, so that others are named too
	if len(problem) > most {
		problem = strings.ToValidUTF8(problem[:most], "") + "…"
	}
	p.list.add(url.QueryEscape(id) + "=" + url.QueryEscape(problem))
}

// SetHeader implements web.Header.
func (p problems) SetHeader(h http.Header) { p.list.set(h, problemsHeader) }

// log adds the problems to the request's line in the log.
func (p problems) log(r *http.Request) { web.NoteOf(r).Problems = string(p.list) }
