// Package web has what all routes of the server share: bounded decoding of requests, one
// shape of answers and errors, conditional files, request IDs, the access log and metrics, the
// throttle of logins, health, CORS, and the client's address behind a proxy. Of the project it
// knows object.Store only.
//
// Success is JSON. Errors have one of two shapes: a 401 has error, an object with message and
// code; every other status has error1, error2 and so on, each an object with message. Messages
// are plain sentences. The cause is in the log under the request's ID, which every answer has
// in X-Request-Id.
package web

import (
	"context"
	"net/http"
	"time"
)

// Deadline is the default time that a request without files may take, from the
// end of its header until its answer is ready.
const Deadline = 20 * time.Second

// LimitTime sets a deadline on the context of each request.
func LimitTime(limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
