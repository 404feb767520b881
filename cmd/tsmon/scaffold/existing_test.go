package scaffold

import (
	"testing"

	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/tauri"
)

// TestPrereleaseChannel: pre-releases go to a channel beside that of releases, also once a
// new key has led both elsewhere.
func TestPrereleaseChannel(t *testing.T) {
	stable, pre := config.Channel{}, config.Channel{Prerelease: true}
	beta, beta2 := config.Channel{Prerelease: true, Follows: "stable"}, config.Channel{Prerelease: true, Follows: "stable-2"}
	for name, c := range map[string]struct {
		channels map[string]config.Channel
		want     string
	}{
		"follows":              {map[string]config.Channel{"stable": stable, "beta": beta}, "beta"},
		"follows nothing":      {map[string]config.Channel{"stable": stable, "beta": pre}, "beta"},
		"follows another":      {map[string]config.Channel{"stable": stable, "alpha": beta2, "beta": beta, "stable-2": stable}, "beta"},
		"a follower and one":   {map[string]config.Channel{"stable": stable, "alpha": pre, "beta": beta}, "beta"},
		"one beside followers": {map[string]config.Channel{"stable": stable, "stable-2": stable, "beta-2": beta2, "edge": pre}, "edge"},
		"none":                 {map[string]config.Channel{"stable": stable}, "stable"},
	} {
		p := &plan{config: &config.Config{Channels: c.channels}, project: &tauri.Project{}}
		if got := p.prereleaseChannel(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestWithSetting(t *testing.T) {
	for name, c := range map[string]struct{ before, want string }{
		"plain":           {"# Ours\nstorage: ./old\nchannels:\n  stable: {rings: true}\n", "# Ours\nstorage: ./new\nchannels:\n  stable: {rings: true}\n"},
		"quoted, comment": {"storage: 'a # b'   # here\nproject: x\n", "storage: ./new    # here\nproject: x\n"},
		"no line break":   {"project: x\nstorage: ./old", "project: x\nstorage: ./new"},
		"other breaks":    {"storage: ./old\r\nproject: x\r\n", "storage: ./new\r\nproject: x\r\n"},
		"quoted name":     {"\"storage\": ./old\n", "storage: ./new\n"},
		"a document":      {"---\nstorage: ./old\n", "---\nstorage: ./new\n"},
		"the same":        {"storage:   ./new/   # here\n", "storage:   ./new/   # here\n"},
		"deeper":          {"server: {storage: x}\n", ""},
		"missing":         {"project: x\n", ""},
		"empty":           {"", ""},
		"a comment":       {"# Ours\n", ""},
		"a list":          {"[storage]\n", ""},
		"a flow":          {"{storage: ./old, project: x}\n", ""},
		"two lines":       {"storage: >-\n  ./old\n  er\n", ""},
		"the next line":   {"storage:\n  ./old\n", ""},
		"a list of it":    {"storage:\n- ./old\n", ""},
		"an anchor":       {"storage: &s ./old\nproject: *s\n", ""},
		"a null":          {"null\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := withSetting([]byte(c.before), "storage", "./new")
			if string(got) != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}
