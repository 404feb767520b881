package longtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSharesAreTheWhole: each case is in exactly one share, however it is chosen.
func TestSharesAreTheWhole(t *testing.T) {
	const cases, each = 100, 7
	for _, of := range []int{1, 2, 16, 130} {
		has, steps, count := make([]int, cases), make([]int, cases*each), 0
		for number := 1; number <= of; number++ {
			s, err := parse(fmt.Sprintf("%d/%d", number, of))
			if err != nil {
				t.Fatal(err)
			}
			for i := range has {
				if s.Has(i) {
					has[i]++
				}
			}
			for at, stride := s.Steps(each); at < len(steps); at += stride {
				steps[at]++
			}
			count += s.Count(cases)
		}
		for i, n := range has {
			if n != 1 {
				t.Errorf("%d of %d shares have case %d", n, of, i)
			}
		}
		for at, n := range steps {
			if at%each == 0 && n != 1 || at%each > 0 && n != 0 {
				t.Errorf("%d of %d shares come by %d in steps of %d", n, of, at, each)
			}
		}
		if count != cases {
			t.Errorf("%d shares count %d cases of %d", of, count, cases)
		}
	}
}

func TestChosen(t *testing.T) {
	t.Setenv(Variable, "")
	if share, long := Chosen(t); long || !share.Has(0) || !share.Has(5) || share.Count(5) != 5 {
		t.Errorf("an ordinary run: %+v, %v", share, long)
	}
	t.Setenv(Variable, "3/16")
	if share, long := Chosen(t); !long || share.Has(0) || !share.Has(2) || !share.Has(18) || share.Count(16) != 1 {
		t.Errorf("share 3/16: %+v, %v", share, long)
	}
	t.Setenv(Variable, "1")
	if share, long := Chosen(t); !long || !share.Has(0) || !share.Has(5) {
		t.Errorf("everything: %+v, %v", share, long)
	}
	for _, wrong := range []string{"0", "2", "0/16", "17/16", "-1/16", "3/", "/16", "yes", "1/2/3"} {
		if share, err := parse(wrong); err == nil {
			t.Errorf("%q is %+v", wrong, share)
		}
	}
}

// TestMakefile: make test-long runs the tests that ask for a share.
func TestMakefile(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	setting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile doesn't set %s", name)
		}
		return strings.ReplaceAll(string(found[1]), "$$", "$")
	}
	packages, names := strings.Fields(setting("LONG")), strings.ReplaceAll(setting("LONG_TESTS"), "/", "|/")
	matching, function := regexp.MustCompile(names), regexp.MustCompile(`(?ms)^func (?:\(.*?\) )?(\w+)\(.*?^}$`)
	askers := 0
	err = filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(src, []byte("\t\"tsmon/store/longtest\"\n")) {
			return err
		}
		if folder := "./" + filepath.ToSlash(filepath.Dir(path))[len("../../"):]; !slices.Contains(packages, folder) {
			t.Errorf("LONG lacks %s", folder)
		}
		run := 0
		for _, f := range function.FindAllSubmatch(src, -1) {
			name, test := string(f[1]), bytes.HasPrefix(f[1], []byte("Test"))
			if test && matching.MatchString(name) {
				run++
			} else if test && bytes.Contains(f[0], []byte("longtest.")) {
				t.Errorf("LONG_TESTS lacks %s of %s", name, path)
			}
			if bytes.Contains(f[0], []byte("longtest.Chosen(")) {
				askers++
			}
		}
		if run == 0 && !bytes.Contains(src, []byte("func Benchmark")) {
			t.Errorf("LONG_TESTS has no test of %s, which asks for a share", path)
		}
		return nil
	})
	if err != nil || askers < 8 {
		t.Errorf("%d functions ask for a share, %v", askers, err)
	}
}
