package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"tsmon/api/mqtt"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// failure is an answer other than success.
type failure struct {
	status   int
	messages []string      // for the client, at least one
	cause    error         // for the log, or nil
	wait     time.Duration // until the client should try again, or 0
}

func (f *failure) Error() string { return strings.Join(f.messages, "; ") }

// refuse is an answer that says why not.
func refuse(status int, format string, args ...any) *failure {
	return &failure{status: status, messages: []string{fmt.Sprintf(format, args...)}}
}

// unauthorized sends the client back to its login.
func unauthorized(cause error) *failure {
	return &failure{status: http.StatusUnauthorized, messages: []string{"the token is missing, expired or not valid"}, cause: cause}
}

// maxProblems is how many problems of a request are named.
const maxProblems = 20

// problems gathers what is wrong with the parameters of a request.
type problems []string

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

// err is nil if there are none. As clients expect, it is answered with 500.
func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	if more := len(p) - maxProblems; more > 0 {
		p = append(p[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return &failure{status: http.StatusInternalServerError, messages: p}
}

// invalid is the answer to a parameter that can't be understood.
func invalid(format string, args ...any) error {
	var p problems
	p.add(format, args...)
	return p.err()
}

type message struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// body is the failure as a client reads it.
func (f *failure) body() map[string]message {
	if f.status == http.StatusUnauthorized {
		return map[string]message{"error": {Message: f.Error(), Code: "UNAUTHORIZED"}}
	}
	body := make(map[string]message, len(f.messages))
	for i, m := range f.messages {
		body[fmt.Sprintf("error%d", i+1)] = message{Message: m}
	}
	return body
}

// faults are what the errors of the rooms below mean to a client, most specific
// first. All of them are the server's: what a client can mend is found before.
var faults = []struct {
	is       error
	sentence string
}{
	{record.ErrUnavailable, "the records can't be reached at the moment"},
	{series.ErrUnavailable, "the time-series database can't be reached at the moment"},
	{series.ErrNoDatabase, "the time-series database of this client does not exist"},
	{series.ErrTooLarge, "the answer would be too large: ask for less at a time"},
	{object.ErrUnavailable, "the file store can't be reached at the moment"},
	{object.ErrNoStore, "the file store can't be reached at the moment"},
	{object.ErrFull, "the file store is full"},
	{mqtt.ErrUnavailable, "the message broker can't be reached at the moment: nothing was sent"},
	{mqtt.ErrTooLarge, "the message is larger than the broker takes: nothing was sent"},
	{mqtt.ErrUnknown, "the message broker did not acknowledge the message in time: it may have been delivered, or not"},
	{fs.ErrPermission, "the server is not allowed to ask its own store"},
	{context.DeadlineExceeded, "the server did not get the answer in time"},
}

// statusGone stands in the log for an answer that nobody waited for.
const statusGone = 499

// explain turns any error into an answer.
func (s *Server) explain(r *http.Request, err error) *failure {
	var f *failure
	var tooLarge *http.MaxBytesError
	var conflict *record.ConflictError
	var denied *mqtt.DeniedError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &tooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", tooLarge.Limit)
	case errors.As(err, &conflict):
		return &failure{status: http.StatusInternalServerError, messages: []string{conflict.Error()}}
	case errors.Is(r.Context().Err(), context.Canceled):
		return refuse(statusGone, "the client went away")
	case r.Context().Err() != nil:
		err = fmt.Errorf("%w: %w", r.Context().Err(), err)
	}
	f = &failure{status: http.StatusInternalServerError, cause: err, messages: []string{"something went wrong in the server"}}
	for _, fault := range faults {
		if errors.Is(err, fault.is) {
			f.messages[0] = fault.sentence
			break
		}
	}
	if errors.As(err, &denied) {
		f.messages[0] = denied.Error()
	}
	f.messages[0] += " (request " + noteOf(r).id + ")"
	return f
}
