package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile("`([a-z/]+)\\.(Test[A-Za-z]+)`((?:,? \"[^\"]+\")*)")
	namedCase   = regexp.MustCompile("\"([^\"]+)\"")
	namedScript = regexp.MustCompile("`script/([a-z-]+)`")
)

// TestAttacksPage: each claim of the page about attacks names existing tests that prove it, or
// says who else is responsible.
func TestAttacksPage(t *testing.T) {
	page, err := os.ReadFile("../../release/ATTACKS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, classes, _ := strings.Cut(string(page), "\n## ")
	claims := strings.Split(classes, "\n- ")[1:]
	tests := map[string]string{} // by folder
	for _, claim := range claims {
		claim, _, _ = strings.Cut(claim, "\n\n")
		claim = strings.Join(strings.Fields(claim), " ")
		named := namedTest.FindAllStringSubmatch(claim, -1)
		scripts := namedScript.FindAllStringSubmatch(claim, -1)
		if len(named)+len(scripts) == 0 && !strings.Contains(claim, "Left to the updater.") && !strings.Contains(claim, "Left to you: ") {
			t.Errorf("no test holds this: %s", claim)
		}
		for _, script := range scripts {
			if _, err := os.Stat("testdata/script/" + script[1] + ".txtar"); err != nil {
				t.Error(err)
			}
		}
		for _, n := range named {
			folder := n[1]
			if tests[folder] == "" {
				tests[folder] = testsIn(t, filepath.Join("../..", folder))
			}
			if !strings.Contains(tests[folder], "\nfunc "+n[2]+"(t *testing.T)") {
				t.Errorf("%s has no %s", folder, n[2])
			}
			for _, c := range namedCase.FindAllStringSubmatch(n[3], -1) {
				if !strings.Contains(tests[folder], `"`+c[1]+`"`) {
					t.Errorf("%s has no case %q", folder, c[1])
				}
			}
		}
	}
	if len(claims) < 30 {
		t.Errorf("%d claims were found", len(claims))
	}
}

// testsIn returns the source of the tests in a folder.
func testsIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
