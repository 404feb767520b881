package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/object"
	"tsmon/store/servertest"
)

func TestMain(m *testing.M) {
	testscript.Main(sharing{m}, map[string]func(){
		"tsmon":        laterMain,
		"tsmon-killed": killedMain,
	})
}

// sharing stops the servers that tests share after the last test.
type sharing struct{ *testing.M }

func (s sharing) Run() int {
	if err := servertest.HideKeys("../../signing/testdata/*/*.key", "testdata/*.key"); err != nil {
		panic(err)
	}
	defer servertest.EndShared()
	return s.M.Run()
}

// laterMain is tsmon with all clocks ahead by the duration LATER, and its own clock wrong by the
// duration SKEW, if they are set.
func laterMain() {
	app := cli.New()
	moveClocks(app, os.Getenv("LATER"), os.Getenv("SKEW"))
	os.Exit(run(app))
}

// moveClocks moves the clock of a command and that of its store; skew only the former.
func moveClocks(app *cli.App, later, skew string) {
	ahead := durationOf(later)
	own := ahead + durationOf(skew)
	app.Now = func() time.Time { return time.Now().Add(own) }
	if ahead == 0 {
		return
	}
	open := app.OpenStore
	app.OpenStore = func(ctx context.Context, storage string) (object.Store, error) {
		s, err := open(ctx, storage)
		return timedStore(s, func() time.Time { return time.Now().Add(ahead) }), err
	}
}

// durationOf returns a duration, 0 for an empty text.
func durationOf(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// timed is a store with its own time.
type timed struct {
	object.Store
	now func() time.Time
}

func (s timed) Now(context.Context) (time.Time, error) { return s.now(), nil }

// timedStore returns a store with a time of its own.
func timedStore(s object.Store, now func() time.Time) object.Store {
	own := timed{s, now}
	if uploads, ok := s.(object.Uploads); ok {
		return struct {
			timed
			object.Uploads
		}{own, uploads}
	}
	return own
}

// command runs a command of this test binary in a clean environment plus env. It
// returns the output and the exit code, -1 if it was killed.
func command(t testing.TB, env []string, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AWS_EC2_METADATA_DISABLED=true"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
