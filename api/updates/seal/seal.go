// Package seal checks the signatures of reports: the HMAC-SHA-256 of the client's ID, the
// time and the body, with a secret that the application holds.
package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tsmon/api/web"
)

// Headers of a signed report.
const (
	Time      = "X-Tsmon-Time"      // seconds since 1970
	Signature = "X-Tsmon-Signature" // hex
)

const (
	// signedTime is how far the clock of a client may differ.
	signedTime = 10 * time.Minute
	// maxSigned bounds the signatures that are remembered.
	maxSigned = 50_000
)

// Seals checks signatures, each of which counts once.
type Seals struct {
	secrets []string
	taken   *lru.Cache[[sha256.Size]byte, time.Time] // signatures that came, and until when they are recent
}

// New returns Seals for the secrets that applications may hold; without any, all reports count.
func New(secrets []string) *Seals {
	taken, _ := lru.New[[sha256.Size]byte, time.Time](maxSigned) // fails for sizes below 1 only
	return &Seals{secrets, taken}
}

// Check returns when a report was made: now if there are no secrets, the zero time if there are
// and the report is not signed, otherwise its signed time, at most now. A wrong signature is an
// error, and so is one that came before or is too old. A report that is sent again through another
// server keeps its time, so that it changes nothing.
func (s *Seals) Check(h http.Header, id string, body []byte, now time.Time) (time.Time, error) {
	sent, seconds := h.Get(Signature), h.Get(Time)
	if len(s.secrets) == 0 {
		return now, nil
	}
	if sent == "" {
		return time.Time{}, nil
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, refused("the header %s does not hold seconds since 1970", Time)
	}
	at := time.Unix(unix, 0)
	if age := now.Sub(at); age > signedTime || age < -signedTime {
		return time.Time{}, refused("the report was signed more than %s before or after now", signedTime)
	}
	var key [sha256.Size]byte
	if n, err := hex.Decode(key[:], []byte(sent[:min(len(sent), 2*len(key))])); err != nil || n != len(key) || len(sent) != 2*len(key) {
		return time.Time{}, refused("the header %s does not hold %d hexadecimal digits", Signature, 2*len(key))
	}
	if !s.match(key[:], fmt.Appendf(nil, "%s\n%s\n%s", id, seconds, body)) {
		return time.Time{}, refused("the signature does not match")
	}
	if known, _, _ := s.taken.PeekOrAdd(key, at.Add(signedTime)); now.Before(known) {
		return time.Time{}, refused("the report came before")
	}
	if at.After(now) {
		at = now
	}
	return at, nil
}

// match tries all secrets, in a time that does not depend on which one matches.
func (s *Seals) match(sent, message []byte) bool {
	found := false
	for _, secret := range s.secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(message)
		found = hmac.Equal(mac.Sum(nil), sent) || found
	}
	return found
}

func refused(format string, args ...any) error {
	return web.Refuse(http.StatusForbidden, format, args...)
}
