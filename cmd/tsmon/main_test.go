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
	"tsmon/store/servertest"
)

func TestMain(m *testing.M) {
	testscript.Main(sharing{m}, map[string]func(){
		"tsmon":        main,
		"tsmon-killed": killedMain,
		"tsmon-later":  laterMain,
	})
}

// sharing ends the servers that tests share after them.
type sharing struct{ *testing.M }

func (s sharing) Run() int {
	if err := servertest.HideKeys("../../signing/testdata/*/*.key", "testdata/*.key"); err != nil {
		panic(err)
	}
	defer servertest.EndShared()
	return s.M.Run()
}

// laterMain is tsmon whose clock is ahead by the duration LATER, if it is set.
func laterMain() {
	app := cli.New()
	app.Now = laterNow(os.Getenv("LATER"))
	os.Exit(app.Run(context.Background(), rootCommand(app), os.Args[1:]))
}

// laterNow returns a clock that is ahead by a duration, or not if it is empty.
func laterNow(ahead string) func() time.Time {
	if ahead == "" {
		return time.Now
	}
	by, err := time.ParseDuration(ahead)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return time.Now().Add(by) }
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
