package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTrustedKeys(t *testing.T) {
	spans := TrustedKeys{{Key: "RWa", Until: "1.6.0"}, {Key: "RWb", From: "1.6.0", Until: "2.0.0"}, {Key: "RWc"}}
	for text, want := range map[string]TrustedKeys{
		"[{key: RWa, until: 1.6.0}, {key: RWb, from: 1.6.0, until: 2.0.0}, RWc]":                           spans,
		"\n  - {until: 1.6.0, key: ' RWa '}\n  - key: RWb\n    from: 1.6.0\n    until: \"2.0.0\"\n  - RWc": spans,
		"[&a {key: RWa, until: 1.6.0}, *a]":                                                                {spans[0], spans[0]},
		"[]":                                                                                               nil,
		"[{}, '']":                                                                                         nil,
	} {
		c, err := loadText(t, "trusted_keys: "+text)
		if err != nil || !slices.Equal(c.TrustedKeys, want) {
			t.Errorf("%s: %v, %v", text, c.TrustedKeys, err)
		}
		if again, err := Load("", []string{"TSMON_TRUSTED_KEYS=" + want.String()}); err != nil || !slices.Equal(again.TrustedKeys, want) {
			t.Errorf("%s does not read back: %v, %v", want, again, err)
		}
	}
}

func TestTrustedKeysMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[{key: RWa, unti: 1.6.0}]":    "line 1: unknown key unti; did you mean until?",
		"[{key: RWa,\n  form: 1.6.0}]": "line 2: unknown key form; did you mean from?",
		"[{key: [RWa]}]":               "a list is not a text",
		"[[RWa]]":                      "a list is not a mapping",
		"{key: RWa}":                   "a mapping is not keys",
	} {
		if _, err := loadText(t, "trusted_keys: "+text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"[RWa", "[{key: RWa, form: 1}]", "[[]]", ",", " , "} {
		_, err := Load("", []string{"TSMON_TRUSTED_KEYS=" + text})
		if err == nil || !strings.Contains(err.Error(), "TSMON_TRUSTED_KEYS is not keys with commas between them") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func loadText(t *testing.T, text string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tsmon.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, nil)
}
