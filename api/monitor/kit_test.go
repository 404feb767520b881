package monitor_test

import (
	"encoding/base64"
	"time"
)

// What the interface promises.
const (
	truncatedHeader = "X-Tsmon-Truncated"
	problemsHeader  = "X-Tsmon-Problems"
	uploadFolder    = "uploads/"
	maxForm         = 64 << 10 // bytes that a form may add to its file
	maxProblems     = 20
	maxProblem      = 5 << 10 // bytes of the header
	guessWindow     = 5 * time.Minute
)

// uploaded is the data of the answer to an upload.
type uploaded struct {
	URL, Key, Name string
	Size           int64
	ContentType    string
	SHA256         string
}

// decodeSegment returns a segment of a JWT, nil if it is malformed.
func decodeSegment(text string) []byte {
	data, _ := base64.RawURLEncoding.DecodeString(text)
	return data
}
