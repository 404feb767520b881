// Package web holds what every route of the server shares: bounded decoding of
// requests, answers and errors in one shape, conditional files, the request's ID,
// its log line and its metrics, the throttle of logins, health, CORS, and reading
// who asks through a proxy. It knows object.Store and nothing else of the project.
//
// Success is JSON. Everything else has one of two shapes: 401 carries error, an
// object with message and code; every other status carries error1, error2 and so
// on, each an object with message. Messages are plain sentences; the cause goes to
// the log under the request's ID, which every answer carries in X-Request-Id.
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
