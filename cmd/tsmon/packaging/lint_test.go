package main

import (
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

// TestWorkflows lints the example workflows, which checks the inputs of the action.
func TestWorkflows(t *testing.T) {
	command(t, tools+"actionlint", glob(t, "../../../.github/actions/tsmon/examples/*.yml")...)
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
