package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const tools = "../../../.tools/"

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return files
}

// TestWorkflows lints the example workflows in a project that has the action, so that
// its inputs are checked, too.
func TestWorkflows(t *testing.T) {
	project := t.TempDir()
	github := filepath.Join(project, ".github")
	actionlint, err := filepath.Abs(tools + "actionlint")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Join(project, ".git"), filepath.Join(github, "actions")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "cp", "-r", actionFolder, filepath.Join(github, "actions"))
	command(t, "cp", "-r", filepath.Join(actionFolder, "examples"), filepath.Join(github, "workflows"))
	lint := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), actionlint)
		cmd.Dir = project
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := lint(); err != nil {
		t.Error(out)
	}
	command(t, "sed", "-i", "s/reason: /cause: /", filepath.Join(github, "workflows", "rollback.yml"))
	if out, err := lint(); err == nil || !strings.Contains(out, `"cause" is not defined in action "tsmon"`) {
		t.Errorf("an unknown input is accepted: %s", out)
	}
}

// TestManifests checks the manifests for Kubernetes against schemas that refuse
// unknown members.
func TestManifests(t *testing.T) {
	args := append([]string{"-strict", "-summary", "-schema-location", "kubernetes/schemas/{{.ResourceKind}}{{.KindSuffix}}.json"}, glob(t, "kubernetes/*.yaml")...)
	if out := command(t, tools+"kubeconform", args...); !strings.Contains(out, "Invalid: 0, Errors: 0, Skipped: 0") {
		t.Error(out)
	}
}

// TestUnit: systemd finds the service at most a little exposed; 20 is 2.0.
func TestUnit(t *testing.T) {
	command(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", "./tsmon.service")
	root := t.TempDir()
	command(t, "dpkg-deb", "-x", filepath.Join(dist.folder, "tsmon_0.1.0_amd64.deb"), root)
	if unit := filepath.Join(root, "usr/lib/systemd/system/tsmon.service"); digest(t, unit) != digest(t, "tsmon.service") {
		t.Error("the package has another unit")
	}
}
