package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// system is a throw-away Debian that packages are installed in. It has no systemd.
type system struct {
	t    *testing.T
	root string
}

func newSystem(t *testing.T) system {
	t.Helper()
	s := system{t, filepath.Join(t.TempDir(), "root")}
	command(t, "cp", "-a", tools+"bookworm", s.root)
	return s
}

// run runs a command as root and returns what it wrote.
func (s system) run(args ...string) string {
	s.t.Helper()
	return command(s.t, "chroot", append([]string{s.root}, args...)...)
}

// asService runs a command as the service's user, with the unit's environment.
func (s system) asService(unit map[string][]string, args ...string) *exec.Cmd {
	list := []string{"--userspec=" + unit["User"][0] + ":" + unit["Group"][0], s.root, "/usr/bin/env", "-i", "-C", unit["WorkingDirectory"][0]}
	for _, pairs := range unit["Environment"] {
		list = append(list, strings.Fields(pairs)...)
	}
	list = append(list, "TSMON_LISTEN=127.0.0.1:0", "TSMON_MQTT_LISTEN=127.0.0.1:0")
	return exec.CommandContext(s.t.Context(), "chroot", append(list, args...)...)
}

func (s system) exists(path string) bool {
	_, err := os.Stat(filepath.Join(s.root, path))
	return err == nil
}

// unit returns the settings of the installed unit.
func (s system) unit() map[string][]string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.root, "usr/lib/systemd/system/tsmon.service"))
	if err != nil {
		s.t.Fatal(err)
	}
	settings := map[string][]string{}
	for _, match := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(string(data), -1) {
		settings[match[1]] = append(settings[match[1]], match[2])
	}
	return settings
}

// serve starts the unit's command, asks whether it works, and stops it.
func (s system) serve() {
	s.t.Helper()
	unit := s.unit()
	start := s.asService(unit, strings.Fields(unit["ExecStart"][0])...)
	answers(s.t, start)
}

// answers starts a server, wants it to be ready, and stops it.
func answers(t *testing.T, start *exec.Cmd) {
	t.Helper()
	stderr, err := start.StderrPipe()
	if err == nil {
		err = start.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var said []string
	for base := ""; base == ""; {
		if !lines.Scan() {
			t.Fatalf("the server ended: %v: %s", start.Wait(), strings.Join(said, "\n"))
		}
		said = append(said, lines.Text())
		if match := regexp.MustCompile(`serving (\S+)/`).FindStringSubmatch(lines.Text()); match != nil {
			base = match[1]
			response, err := http.Get(base + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("/readyz: %s: %s", response.Status, body)
			}
		}
	}
	if err := start.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		said = append(said, lines.Text())
	}
	if err := start.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v: %s", err, strings.Join(said, "\n"))
	}
}

// TestDeb installs, runs, upgrades and removes the package.
func TestDeb(t *testing.T) {
	s := newSystem(t)
	s.install(filepath.Join(dist.folder, "tsmon_0.1.0_amd64.deb"))
	for path, want := range map[string]string{"/etc/tsmon/tsmon.yaml": "640 root tsmon", "/var/lib/tsmon": "750 tsmon tsmon", "/usr/bin/tsmon": "755 root root"} {
		if got := strings.TrimSpace(s.run("stat", "-c", "%a %U %G", path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{"/usr/share/man/man1/tsmon-release-publish.1.gz", "/usr/share/bash-completion/completions/tsmon"} {
		if !strings.Contains(s.run("dpkg", "-L", "tsmon"), path) {
			t.Errorf("%s is missing", path)
		}
	}
	s.serve()
	if out, err := s.asService(s.unit(), "/usr/bin/tsmon", "tenant", "create", "acueducto", "--ts-name", "ts_acueducto").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	edited := filepath.Join(s.root, "etc/tsmon/tsmon.yaml")
	data, err := os.ReadFile(edited)
	if err == nil {
		err = os.WriteFile(edited, append(data, "# edited here\n"...), 0o640)
	}
	if err != nil {
		t.Fatal(err)
	}

	s.install(s.newer())
	s.serve()
	if got := s.run("dpkg-query", "-W", "-f", "${Version}", "tsmon"); got != "0.1.1" {
		t.Errorf("version %s after the upgrade", got)
	}
	if data, err := os.ReadFile(edited); err != nil || !strings.Contains(string(data), "# edited here") {
		t.Errorf("the upgrade replaced the configuration: %v: %s", err, data)
	}
	if out, err := s.asService(s.unit(), "/usr/bin/tsmon", "tenant", "list").CombinedOutput(); err != nil || !strings.Contains(string(out), "acueducto") {
		t.Errorf("the tenant is gone after the upgrade: %v: %s", err, out)
	}

	s.run("dpkg", "--remove", "tsmon")
	if s.exists("usr/bin/tsmon") || !s.exists("etc/tsmon/tsmon.yaml") || !s.exists("var/lib/tsmon/records.db") {
		t.Error("removal must delete the program, and keep configuration and data")
	}
	s.run("dpkg", "--purge", "tsmon")
	if s.exists("etc/tsmon/tsmon.yaml") || !s.exists("var/lib/tsmon/records.db") {
		t.Error("purging must delete the configuration, and keep the data")
	}
}

func (s system) install(deb string) {
	s.t.Helper()
	command(s.t, "cp", deb, filepath.Join(s.root, "tmp/tsmon.deb"))
	s.run("dpkg", "--install", "/tmp/tsmon.deb")
}

// newer returns the same package as version 0.1.1.
func (s system) newer() string {
	s.t.Helper()
	folder := filepath.Join(s.t.TempDir(), "deb")
	command(s.t, "dpkg-deb", "--raw-extract", filepath.Join(dist.folder, "tsmon_0.1.0_amd64.deb"), folder)
	command(s.t, "sed", "-i", "s/^Version: .*/Version: 0.1.1/", filepath.Join(folder, "DEBIAN/control"))
	command(s.t, "chown", "-R", "0:0", filepath.Join(folder, "DEBIAN"))
	deb := folder + ".deb"
	command(s.t, "dpkg-deb", "--build", folder, deb)
	return deb
}

// TestRPM and TestAPK look at what other systems would install.
func TestRPM(t *testing.T) {
	list := command(t, "rpm", "-qp", "--dump", filepath.Join(dist.folder, "tsmon-0.1.0-1.x86_64.rpm"))
	for _, want := range []string{`/usr/bin/tsmon \d+ \d+ \w+ 0100755 root root`, `/etc/tsmon/tsmon.yaml \d+ \d+ \w+ 0100640 root tsmon 1`,
		`/var/lib/tsmon \d+ \d+ \w+ 040750 tsmon tsmon`, `/usr/lib/systemd/system/tsmon.service `} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(list) {
			t.Errorf("%s does not match:\n%s", want, list)
		}
	}
	if scripts := command(t, "rpm", "-qp", "--scripts", filepath.Join(dist.folder, "tsmon-0.1.0-1.x86_64.rpm")); !strings.Contains(scripts, "useradd --system") {
		t.Errorf("no user is created:\n%s", scripts)
	}
}

func TestAPK(t *testing.T) {
	list := strings.Fields(command(t, "tar", "-tzf", filepath.Join(dist.folder, "tsmon_0.1.0_x86_64.apk")))
	for _, want := range []string{".PKGINFO", ".pre-install", "usr/bin/tsmon", "etc/tsmon/tsmon.yaml"} {
		if !slices.Contains(list, want) {
			t.Errorf("%s is missing in %v", want, list)
		}
	}
}
