package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programs are the programs in the commands of guides.
var programs = []string{"tsmon", "make", "go", "curl", "systemctl", "docker", "skopeo", "minisign", "mc", "ssh-keygen", "openssl", "for"}

// TestOtherCommands: commands of other programs in guides are run by a script exactly as written.
// Commands that a script can't run are checked in other ways. Targets, folders and tests of this
// project must exist. Commands of systemctl, skopeo and docker must fit the unit and the image;
// the tests of the packages run them.
func TestOtherCommands(t *testing.T) {
	t.Parallel()
	c, typed := newCommandCheck(t), typedLines(t)
	checks := map[string]func(words []string) string{"make": c.make, "go": c.golang, "systemctl": c.systemctl, "docker": c.docker, "skopeo": c.skopeo}
	seen := map[string]int{}
	for _, guide := range documents(t) {
		text := read(t, guide)
		for _, line := range append(linesOf(text), inText(text, otherPrograms)...) {
			name := program(line)
			seen[name]++
			if name == "tsmon" || typed[line] {
				continue
			}
			check := checks[name]
			words, err := split(line)
			if check == nil || err != nil {
				t.Errorf("%s: no script runs, with `typed`, %s", guide, line)
				continue
			}
			if problem := check(words[slices.Index(words, name)+1:]); problem != "" {
				t.Errorf("%s: %s: %s", guide, line, problem)
			}
		}
		for _, line := range unknown(text) {
			t.Errorf("%s: nothing checks %s", guide, line)
		}
	}
	for _, name := range programs {
		if seen[name] == 0 {
			t.Errorf("no guide has %s", name)
		}
	}
}

var (
	// noCommands begin lines of blocks that are no commands.
	noCommands = []string{"const", "fn", "expected", "done", "ssh", "until"}
	// otherPrograms are those that are also named in texts.
	otherPrograms = []string{"systemctl", "mc", "aws", "curl", "docker", "make", "go"}
)

// unknown returns the lines of a guide's indented blocks that seem to be commands of a
// program that is not one of programs.
func unknown(guide string) (lines []string) {
	blank, fenced := true, false
	for line := range strings.Lines(strings.ReplaceAll(guide, "\\\n", " ")) {
		text := strings.TrimSpace(line)
		block := !fenced && blank && strings.HasPrefix(line, "    ")
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		blank = text == "" || block
		first, _, _ := strings.Cut(text, " ")
		if block && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(first) && !slices.Contains(noCommands, first) && !slices.Contains(programs, first) {
			lines = append(lines, text)
		}
	}
	return lines
}

// commandCheck checks commands. Its methods return what is wrong, or nothing.
type commandCheck struct {
	t        *testing.T
	makefile string
	unit     string
	image    string
}

func newCommandCheck(t *testing.T) *commandCheck {
	t.Helper()
	return &commandCheck{t: t, makefile: read(t, "../../Makefile"), unit: read(t, "packaging/tsmon.service"), image: read(t, "packaging/image.go")}
}

func (c *commandCheck) make(words []string) string {
	if !strings.Contains(c.makefile, "\n"+words[0]+":") {
		return "the Makefile has no " + words[0]
	}
	return ""
}

// golang looks for folders, and for tests that -run names; it runs the installation.
func (c *commandCheck) golang(words []string) string {
	if words[0] == "install" && !testing.Short() {
		install := exec.CommandContext(c.t.Context(), "go", words...)
		install.Dir, install.Env = "../..", append(os.Environ(), "GOBIN="+c.t.TempDir())
		if out, err := install.CombinedOutput(); err != nil {
			return err.Error() + ": " + string(out)
		}
		return ""
	}
	run := slices.Index(words, "-run")
	for i, word := range words {
		if folder, ours := strings.CutPrefix(word, "./"); ours && folder != "..." {
			folder = path.Join("../..", folder)
			tests, _ := filepath.Glob(folder + "/*_test.go") // the pattern is good
			if _, err := os.Stat(folder); err != nil {
				return err.Error()
			}
			if run > 0 && i < run && !slices.ContainsFunc(tests, func(file string) bool { return strings.Contains(read(c.t, file), "\nfunc "+words[run+1]) }) {
				return folder + " has no " + words[run+1]
			}
		}
	}
	return ""
}

// systemctl checks that the unit supports the command.
func (c *commandCheck) systemctl(words []string) string {
	needs := map[string]string{"enable": "\n[Install]", "reload": "\nExecReload=", "restart": "\nExecStart=", "edit": "\n[Service]"}[words[0]]
	if needs == "" || !strings.Contains(c.unit, needs) || words[len(words)-1] != "tsmon" {
		return "tsmon.service has no " + strings.TrimSpace(needs)
	}
	return ""
}

const imageName = "registry.example.com/tsmon:0.1.0"

// docker checks that the image has the folder, the port and the user of the command. The tests of
// the packages check that it runs on a read-only file system.
func (c *commandCheck) docker(words []string) string {
	for flag, said := range map[string]string{"-v": `dataFolder = "` + after(words, "-v", "tsmon:"), "-p": "TSMON_LISTEN=0.0.0.0:" + after(words, "-p", "8080:")} {
		if !strings.Contains(c.image, said) {
			return flag + ": the image has no " + said
		}
	}
	variable, _, _ := strings.Cut(after(words, "-e", ""), "=")
	if !strings.Contains(read(c.t, "reference/settings.md"), "`"+variable+"`") {
		return "there is no setting " + variable
	}
	if words[0] != "run" || !slices.Contains(words, "--read-only") || words[len(words)-1] != imageName {
		return "it does not run the image that skopeo copies"
	}
	return ""
}

// after returns the word after a flag, without a prefix; it is ! without the prefix.
func after(words []string, flag, prefix string) string {
	i := slices.Index(words, flag)
	if i < 0 || i+1 == len(words) {
		return "!"
	}
	rest, found := strings.CutPrefix(words[i+1], prefix)
	if !found {
		return "!"
	}
	return rest
}

func (c *commandCheck) skopeo(words []string) string {
	if words[0] != "copy" || !slices.Contains(words, "oci-archive:tsmon_0.1.0_image.tar") || words[len(words)-1] != "docker://"+imageName {
		return "it does not copy the image that make dist writes"
	}
	return ""
}
