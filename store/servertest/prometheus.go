package servertest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Prometheus scrapes one server each second.
type Prometheus struct {
	Process
	URL string
}

// StartPrometheus starts a Prometheus that scrapes target, HOST:PORT, as the job tsmon
// and evaluates the rules of a file.
func StartPrometheus(tb testing.TB, target, rules string) *Prometheus {
	tb.Helper()
	binary := Find(tb, "", "prometheus", "install prometheus")
	rules, err := filepath.Abs(rules)
	if err != nil {
		tb.Fatal(err)
	}
	s := &Prometheus{}
	s.Process = Process{tb: tb, dir: tb.TempDir(), stop: os.Kill, ready: func() bool {
		_, ok := get(s.URL+"/-/ready", http.StatusOK)
		return ok
	}}
	s.command = func(address string) *exec.Cmd {
		s.URL = "http://" + address
		s.write("prometheus.yml", fmt.Sprintf(prometheusConfiguration, rules, target))
		return exec.Command(binary, "--config.file="+filepath.Join(s.dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(s.dir, "data"), "--web.listen-address="+address)
	}
	s.launch()
	return s
}

const prometheusConfiguration = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: tsmon, static_configs: [{targets: [%q]}]}]
`
