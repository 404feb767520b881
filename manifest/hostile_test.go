package manifest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsmon/manifest"
)

// refused asserts that Check finds one problem and that the updater fails with cause.
func refused(t *testing.T, text string, want manifest.Problem, cause error) {
	t.Helper()
	doc, problems := manifest.Check([]byte(text), manifest.Rules{})
	if doc == nil || len(problems) != 1 || !is(problems[0], want) {
		t.Errorf("%.80q: got %+v, want %+v", text, problems, want)
	}
	if _, err := manifest.ParseResponse([]byte(text)); !errors.Is(err, cause) {
		t.Errorf("%.80q: the updater reads it with %v, want %v", text, err, cause)
	}
}

func TestCheckSyntax(t *testing.T) {
	const mend = "write one JSON object"
	for _, c := range []struct {
		text         string
		line, column int
		problem      string
	}{
		{"", 1, 1, "empty"},
		{" \n\t\n", 1, 1, "empty"},
		{"{", 1, 2, "ends in the middle"},
		{"{\n  \"version\": \"1.", 2, 17, "ends in the middle"},
		{"{\"version\": x", 1, 13, "invalid character 'x'"},
		{"<html>\n", 1, 1, "invalid character '<'"},
		{"{\n  \"version\": 1.2.3\n}", 2, 17, "invalid character '.'"},
		{"{\n  \"version\": \"1.2.3\"\n  \"notes\": \"\"\n}", 3, 3, "invalid character '\"'"},
		{"{\n  \"version\": \"1.2.3\",\n}", 3, 1, "invalid character '}'"},
		{"{\n  'version': '1.2.3'\n}", 2, 3, "invalid character '\\''"},
		{"{\n  \"version\" \"1.2.3\"\n}", 2, 13, "invalid character '\"' after object key"},
		{"{\"a\": [1, 2,, 3]}", 1, 13, "invalid character ','"},
		{"{\"a\": {\"b\": [{\"c\": tru}]}}", 1, 23, "invalid character '}' in literal true"},
		{"{\"a\": 01}", 1, 8, "invalid character '1'"},
		{"{\"a\": +1}", 1, 7, "invalid character '+'"},
		{"{\"a\": NaN}", 1, 7, "invalid character 'N'"},
		{"{\"a\": \"\\x41\"}", 1, 9, "invalid character 'x' in string escape code"},
		{"{\"a\": \"\\u12g4\"}", 1, 12, "invalid character 'g' in \\u"},
		{"{\"a\": \"line\nbreak\"}", 1, 12, "invalid character '\\n' in string literal"},
		{"{\"a\": \"nul\x00\"}", 1, 11, "invalid character '\\x00' in string literal"},
		{"\x00{}", 1, 1, "invalid character '\\x00'"},
		{"{}\x00", 1, 3, "something follows"},
		{"// comment\n{}", 1, 1, "invalid character '/'"},
		{"{\n  /* comment */\n}", 2, 3, "invalid character '/'"},
		{"{} {}", 1, 4, "something follows"},
		{"{}\n\n  x", 3, 3, "something follows"},
		{"{}}", 1, 3, "something follows"},
		{"{},", 1, 3, "something follows"},
		{"{\"a\": \"\xff\"}", 1, 8, "not UTF-8"},
		{"{\"a\":\n\"\xed\xa0\x80\"}", 2, 2, "not UTF-8"}, // a surrogate half
		{"{\"a\": \"\xc3", 1, 8, "not UTF-8"},             // cut inside a character
		{"\xff\xfe{\x00}\x00", 1, 1, "not UTF-8"},         // UTF-16
		{"{\"\xc0\x80\": 1}", 1, 3, "not UTF-8"},          // overlong
	} {
		refused(t, c.text, problem("", c.line, c.column, c.problem, mend), manifest.ErrNotJSON)
	}
}

func TestCheckRoots(t *testing.T) {
	for _, text := range []string{"null", "true", "12", `"1.2.3"`, "[]", `[{"version": "1.2.3"}]`, "1e999"} {
		cause := manifest.ErrShape
		if text == "1e999" {
			cause = manifest.ErrNotJSON
		}
		refused(t, text, problem("", 1, 1, "must be an object", "version, notes, pub_date, platforms"), cause)
	}
	refused(t, "\ufeff"+goodDocument(t), problem("", 1, 1, "byte order mark", "without BOM"), manifest.ErrNotJSON)
}

func TestTruncatedManifestsAreRefused(t *testing.T) {
	text := strings.TrimRight(goodDocument(t), "\n")
	lines := 1
	for n := range len(text) {
		if n > 0 && text[n-1] == '\n' {
			lines++
		}
		if n == 0 {
			continue // empty, not cut off
		}
		want := problem("", lines, n-strings.LastIndexByte(text[:n], '\n'), "ends in the middle", "write one JSON object")
		refused(t, text[:n], want, manifest.ErrNotJSON)
	}
}

func TestDeepNesting(t *testing.T) {
	for _, c := range []struct {
		name, open, close string
		line, column      int // of the first level that is too deep
		client            int // levels that the updater reads
	}{
		{"lists", "[", "]", 1, 6 + 16, 126},
		{"objects", `{"a":`, "}", 1, 6 + 5*16, 126},
	} {
		nested := func(levels int) string {
			return `{"x":` + strings.Repeat(c.open, levels) + "1" + strings.Repeat(c.close, levels) + "}"
		}
		for _, levels := range []int{17, c.client, c.client + 1, 9000, 100_000} {
			cause := manifest.ErrShape
			if levels > c.client {
				cause = manifest.ErrNotJSON
			}
			refused(t, nested(levels), problem("", c.line, c.column, "nested deeper than 16 levels", "write one JSON object"), cause)
		}
		refused(t, nested(16)[:20], problem("", 1, 21, "ends in the middle", "write"), manifest.ErrNotJSON)
		if _, problems := manifest.Check([]byte(nested(15)), manifest.Rules{}); !is(problems[len(problems)-1], problem("x", 1, 2, "unknown member", "leave it out")) {
			t.Errorf("%s: 15 levels: %v", c.name, problems)
		}
	}
}

func TestHugeDocuments(t *testing.T) {
	text := goodDocument(t)
	room := manifest.MaxSize - len(text)
	fitting := with(t, text, "Fixes.", "Fixes."+strings.Repeat("x", room))
	if m, err := manifest.Decode([]byte(fitting)); err != nil || len(m.Notes) != room+6 {
		t.Errorf("a manifest of the largest size is refused: %v", err)
	}
	_, problems := manifest.Check([]byte(fitting+" "), manifest.Rules{})
	// follows: shorten the notes
	if want := problem("", 1, 1, "1048577 bytes long, at most 1048576 are allowed", "shorten the notes"); len(problems) != 1 || !is(problems[0], want) {
		t.Errorf("got %+v, want %+v", problems, want)
	}
}

// Checking takes time linear in the size of the document, even if everything in it
// is wrong.
func TestCheckManyProblems(t *testing.T) {
	var text strings.Builder
	text.WriteString("{")
	const members = 20_000
	for i := range members {
		fmt.Fprintf(&text, `"x%d":1,`, i)
	}
	text.WriteString(strings.Repeat(`"x0":1,`, members))
	text.WriteString(`"y":1}`)
	_, problems := manifest.Check([]byte(text.String()), manifest.Rules{})
	if want := 2*members + 5; len(problems) != want { // four members are missing
		t.Fatalf("%d problems, want %d", len(problems), want)
	}
	if last := problems[len(problems)-1]; !is(last, problem("y", 1, text.Len()-5, "unknown member", "leave it out")) {
		t.Errorf("the last problem is %+v", last)
	}
}
