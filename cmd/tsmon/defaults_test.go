package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"

	"tsmon/api/web"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/serving"
	"tsmon/store/series"
	"tsmon/store/series/influx"
)

// TestHelpListsVariables: help describes every variable of the environment that
// configures something.
func TestHelpListsVariables(t *testing.T) {
	params, err := env.GetFieldParams(&config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range params {
		if !regexp.MustCompile(`\b` + p.Key + `\b`).MatchString(rootHelp + serving.Help) {
			t.Errorf("%s is in no help", p.Key)
		}
	}
	if len(params) < 20 {
		t.Errorf("only %d variables were looked at", len(params))
	}
}

// TestExitCodesInDocuments: the README lists the exit codes that help lists, in its words.
func TestExitCodesInDocuments(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, codes, _ := strings.Cut(rootHelp, "Exit codes:\n")
	codes, _, _ = strings.Cut(codes, "\n\n")
	lines := strings.Split(codes, "\n")
	if len(lines) != cli.ExitTrust+1 {
		t.Fatalf("help lists %q", lines)
	}
	for code, line := range lines {
		meaning, found := strings.CutPrefix(line, fmt.Sprintf("  %d  ", code))
		if !found || !strings.Contains(string(readme), fmt.Sprintf("\n| %d | %s |\n", code, meaning)) {
			t.Errorf("the README lacks %q", line)
		}
	}
}

// TestDefaultsInDocuments: help and documents state the actual defaults.
func TestDefaultsInDocuments(t *testing.T) {
	description, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, after, want string }{
		{rootHelp, "TSMON_LISTEN", "default " + config.DefaultListen},
		{serving.Help, "TSMON_REFRESH", "default " + config.DefaultRefresh.String()},
		{serving.Help, "TSMON_LOG_LEVEL", "default " + config.DefaultLogLevel},
		{serving.Help, "TSMON_LOG_FORMAT", "default " + config.DefaultLogFormat},
		{serving.Help, "TSMON_UPDATES_CLIENTS", fmt.Sprintf("default %d", config.DefaultClients)},
		{serving.Help, "TSMON_UPLOAD_MAX_BYTES", fmt.Sprintf("default %d", config.DefaultMaxUpload)},
		{serving.Command(cli.New()).Flag("listen").Usage, "", config.DefaultListen},
		{string(description), "\n  /upload:", fmt.Sprintf("%d MiB (a setting)", config.DefaultMaxUpload>>20)},
	} {
		_, rest, found := strings.Cut(c.text, c.after)
		// The description of a variable ends where the next one begins.
		rest, _, _ = strings.Cut(rest, "\n  TSMON_")
		if !found || !strings.Contains(rest, c.want) {
			t.Errorf("%s: %q is not said", c.after, c.want)
		}
	}
	c, err := config.Load("", []string{"TSMON_DATA=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.Server.Listen, c.Server.Refresh, c.Server.Upload.MaxBytes, c.Server.Log}
	if want := []any{config.DefaultListen, config.DefaultRefresh, int64(config.DefaultMaxUpload), config.Log{Level: config.DefaultLogLevel, Format: config.DefaultLogFormat}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the defaults are %v, want %v", got, want)
	}
}

// TestQuestionsEndFirst: the deadlines of a client's request (twice as long for series) and of a
// query of the cache are shorter than that of a request to the time-series database. Otherwise a
// slow database would seem to be unreachable.
func TestQuestionsEndFirst(t *testing.T) {
	for what, limit := range map[string]time.Duration{"series": 2 * web.Deadline, "a query of the cache": series.NewCached(nil).Timeout} {
		if influx.RequestTime <= limit {
			t.Errorf("%s: %s, and a request %s", what, limit, influx.RequestTime)
		}
	}
}

// TestExamples: the help of every command that does something has an example.
func TestExamples(t *testing.T) {
	commands := rootCommand(cli.New()).Commands()
	for i := 0; i < len(commands); i++ {
		c := commands[i]
		commands = append(commands, c.Commands()...)
		if !c.HasSubCommands() && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
}
