package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"tsmon/store/object"
)

// Failure is an answer other than success.
type Failure struct {
	Status   int
	Messages []string      // for the client, at least one
	Cause    error         // for the log, or nil
	Wait     time.Duration // until the client should try again, or 0
}

func (f *Failure) Error() string { return strings.Join(f.Messages, "; ") }

// Refuse returns a failure whose text the client gets.
func Refuse(status int, format string, args ...any) *Failure {
	return &Failure{Status: status, Messages: []string{fmt.Sprintf(format, args...)}}
}

// Unauthorized returns the 401 that sends the client back to its login.
func Unauthorized(cause error) *Failure {
	return &Failure{Status: http.StatusUnauthorized, Messages: []string{"the token is missing, expired or not valid"}, Cause: cause}
}

// maxProblems is how many problems of a request are named.
const maxProblems = 20

// Problems collects what is wrong with the parameters of a request.
type Problems []string

// Add appends a problem.
func (p *Problems) Add(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

// Err returns nil if there are no problems, else a failure. Its status is 500, as
// clients of the monitoring interface expect.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	if more := len(p) - maxProblems; more > 0 {
		p = append(p[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return &Failure{Status: http.StatusInternalServerError, Messages: p}
}

// Invalid is Problems.Err of a single problem.
func Invalid(format string, args ...any) error {
	return Problems{fmt.Sprintf(format, args...)}.Err()
}

// BadRequest returns err with status 400 instead of 500 if it says what is wrong with
// a request. Routes that are not part of the monitoring interface answer so.
func BadRequest(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok && f.Status == http.StatusInternalServerError && f.Cause == nil {
		return &Failure{Status: http.StatusBadRequest, Messages: f.Messages}
	}
	return err
}

type message struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// body is the failure as a client reads it.
func (f *Failure) body() map[string]message {
	if f.Status == http.StatusUnauthorized {
		return map[string]message{"error": {Message: f.Error(), Code: "UNAUTHORIZED"}}
	}
	body := make(map[string]message, len(f.Messages))
	for i, m := range f.Messages {
		body[fmt.Sprintf("error%d", i+1)] = message{Message: m}
	}
	return body
}

// Fault maps a back-end error to an answer for clients.
type Fault struct {
	Is       error
	Sentence string
	Wait     time.Duration // until the client should try again, or 0
}

// faults are those of the object store and of any back end, most specific first.
var faults = []Fault{
	{Is: object.ErrUnavailable, Sentence: "the file store can't be reached at the moment"},
	{Is: object.ErrNoStore, Sentence: "the file store can't be reached at the moment"},
	{Is: object.ErrFull, Sentence: "the file store is full"},
	{Is: fs.ErrPermission, Sentence: "the server is not allowed to ask its own store"},
	{Is: context.DeadlineExceeded, Sentence: "the server did not get the answer in time"},
}

// Explained wraps err with the sentence that clients get instead of its text.
func Explained(err error, sentence string) error { return &explained{err, sentence} }

type explained struct {
	error
	sentence string
}

func (e *explained) Unwrap() error { return e.error }

// statusGone is logged if the client went away before the answer.
const statusGone = 499

// Explain turns any error into an answer. An error that the client can't act on becomes 500 with
// a sentence and the request's ID; the error itself is the Cause.
func (p Responder) Explain(r *http.Request, err error) *Failure {
	var f *Failure
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &tooLarge):
		return Refuse(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", tooLarge.Limit)
	case p.Problem != nil && p.Problem(err) != "":
		return Refuse(http.StatusInternalServerError, "%s", p.Problem(err))
	case errors.Is(r.Context().Err(), context.Canceled):
		return Refuse(statusGone, "the client went away")
	case r.Context().Err() != nil:
		err = fmt.Errorf("%w: %w", r.Context().Err(), err)
	}
	fault := p.fault(err)
	return &Failure{Status: http.StatusInternalServerError, Cause: err, Wait: fault.Wait,
		Messages: []string{fault.Sentence + " (request " + NoteOf(r).ID + ")"}}
}

func (p Responder) fault(err error) Fault {
	if own, ok := errors.AsType[*explained](err); ok {
		return Fault{Sentence: own.sentence}
	}
	for _, table := range [][]Fault{p.Faults, faults} {
		for _, fault := range table {
			if errors.Is(err, fault.Is) {
				return fault
			}
		}
	}
	return Fault{Sentence: "something went wrong in the server"}
}
