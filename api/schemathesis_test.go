package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/api/monitor"
	"tsmon/store/record"
)

// TestSchemathesis lets Schemathesis send what the description allows and what it does
// not, to a server that holds what the examples show: no answer is outside the
// description, nothing is taken that it forbids, nothing refused that it allows. The
// variable TSMON_TEST_SCHEMATHESIS names the program, as `make test-openapi` does;
// without it the test is skipped, even where TSMON_TEST_REAL is 1.
func TestSchemathesis(t *testing.T) {
	program := os.Getenv("TSMON_TEST_SCHEMATHESIS")
	if program == "" {
		t.Skip("make test-openapi installs Schemathesis")
	}
	d := load(t)
	w := apitest.Embedded(t)
	d.store(t, w)
	var who apitest.Login
	remarshal(t, d.Paths.Value("/loginPartner").Post.RequestBody.Value.Content["application/json"].Example, &who)
	user := record.User{Email: who.Email, Profile: 7, Admin: true, TokenDigest: monitor.TokenDigest(who.TokenApp)}
	apitest.Must[record.User](t)(w.Records.CreateUser(t.Context(), who.Schema, user))
	var faults, answers atomic.Int64
	server := apitest.ServeWith(t, w, func(_ *api.Server, config *http.Server) {
		handler := config.Handler
		config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answers.Add(1)
			handler.ServeHTTP(&faultFinder{w, &faults}, r)
		})
	})
	w.Logged.Reset()
	asked := w.LogIn(t, server, who)

	folder := t.TempDir()
	settings := fmt.Sprintf(schemathesisSettings, asked.Token, w.Uploads.Access, w.Uploads.Secret, w.WriteToken)
	if err := os.WriteFile(filepath.Join(folder, "schemathesis.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "run", server.URL+"/openapi.json", "--seed", "1", "--phases", "examples,coverage,fuzzing", "--continue-on-failure")
	cmd.Dir = folder
	output, err := cmd.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Error(err)
	}
	if answers.Load() < 1000 {
		t.Errorf("there were %d requests", answers.Load())
	}
	for line := range strings.Lines(w.Logged.String()) { // 500 alone does not tell
		if faults.Load() > 0 && strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") {
			t.Errorf("the log says %.2000s", line)
		}
	}
	if faults.Load() > 0 {
		t.Errorf("%d answers say no more than that something went wrong", faults.Load())
	}
}

// faultFinder counts answers that hide a fault from the client.
type faultFinder struct {
	http.ResponseWriter
	faults *atomic.Int64
}

func (f *faultFinder) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("something went wrong")) {
		f.faults.Add(1)
	}
	return f.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (f *faultFinder) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// schemathesisSettings: invalid parameters and faults are both 500 in the interface, so
// that 500 is no failure in itself. 416 refuses a range that a file does not have, which
// no schema can tell. Nor does one tell line protocol, which Schemathesis sends as JSON,
// or which members a move of a channel needs.
// Its client can't unpack the ranges of packed files.
const schemathesisSettings = `
headers = { Authorization = "Bearer %s", Accept-Encoding = "identity" }
warnings = false

[generation]
max-examples = 50
database = "none"

[checks]
not_a_server_error.enabled = false
positive_data_acceptance.expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "416", "429", "5xx"]

[[operations]]
include-path = "/upload"
headers = { accesskey = "%s", secretkey = "%s" }

[[operations]]
include-path = "/releases/channels/{channel}/rehearse"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-path = "/v2/write"
headers = { Authorization = "Token %s" }
checks.positive_data_acceptance.enabled = false
checks.negative_data_rejection.enabled = false
`
