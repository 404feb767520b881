package fleet

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tsmon/store/record"
)

// Webhook is where notices are sent. The headers are those of
// https://www.standardwebhooks.com.
type Webhook struct {
	Address string // a secret: no log line contains it; empty: nothing is sent
	// Secret signs what is sent, as whsec_ and base64, or as any text; empty: nothing
	// is signed.
	Secret string
}

const webhookTime = 10 * time.Second // for each try

// post sends a message. Its errors don't contain the address.
func (h Webhook) post(ctx context.Context, m record.Message, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Address, bytes.NewReader(m.Body))
	if err != nil {
		return bareCause(err)
	}
	seconds := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "tsmon")
	r.Header.Set("Webhook-Id", m.ID)
	r.Header.Set("Webhook-Timestamp", seconds)
	if h.Secret != "" {
		r.Header.Set("Webhook-Signature", h.sign(m.ID, seconds, m.Body))
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return bareCause(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4096)) // so that the connection can be reused
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	return nil
}

// sign returns the signature of a message: the HMAC-SHA-256 of its ID, the time and the
// body.
func (h Webhook) sign(id, seconds string, body []byte) string {
	key := []byte(h.Secret)
	if encoded, ok := strings.CutPrefix(h.Secret, "whsec_"); ok {
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			key = decoded
		}
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, seconds, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// bareCause removes the address from an error of package http.
func bareCause(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
