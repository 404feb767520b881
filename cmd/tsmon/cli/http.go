package cli

import (
	"net/http"
	"time"
)

// HTTPClient returns a client that waits at most 30 s for response headers.
func HTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	return &http.Client{Transport: transport}
}
