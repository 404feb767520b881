package channels

import (
	"errors"
	"strings"
	"testing"

	"tsmon/manifest"
)

// history makes a log of "publish V" and "rollback V" moves.
func history(moves ...string) *Log {
	log := &Log{Channel: "stable"}
	for i, move := range moves {
		action, number, _ := strings.Cut(move, " ")
		version := number + ".0.0"
		e := Entry{Sequence: uint64(i) + 1, Action: Action(action), Version: version, Why: move}
		if head := log.Head(); head != nil && e.Action == Rollback {
			e.From = head.Version
		}
		log.Entries = append(log.Entries, e)
	}
	return log
}

func TestStanding(t *testing.T) {
	for _, c := range []struct {
		moves string
		want  string
	}{
		{"", ""},
		{"publish 1", "1"},
		{"publish 1,publish 2,publish 3", "1 2 3"},
		{"publish 1,publish 2,rollback 1", "1"},
		{"publish 1,publish 2,publish 3,rollback 1,publish 4", "1 4"},
		{"publish 1,publish 2,publish 3,rollback 2,rollback 1", "1"},
		{"publish 1,publish 2,rollback 1,rollback 2", "1 2"}, // the rollback was taken back
		{"publish 1,promote 2,follow 3,rollback 2", "1 2"},
		{"publish 1,publish 2,rollback 1,publish 3,rollback 2", "1 2"}, // up to 2, which does not leave 3 standing
	} {
		var log *Log
		if c.moves == "" {
			log = history()
		} else {
			log = history(strings.Split(c.moves, ",")...)
		}
		var got []string
		for _, e := range log.Standing() {
			got = append(got, strings.TrimSuffix(e.Version, ".0.0"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: standing %v, want %s", c.moves, got, c.want)
		}
	}
}

func TestRolledBack(t *testing.T) {
	log := history("publish 1", "publish 2", "publish 3", "rollback 1", "publish 4", "rollback 1", "publish 4")
	for version, want := range map[string]bool{"1": false, "2": true, "3": true, "4": false, "5": false} {
		if got := log.RolledBack(version + ".0.0"); (got != nil) != want {
			t.Errorf("%s rolled back: %v, want %v", version, got, want)
		} else if got != nil && got.Sequence != 4 {
			t.Errorf("%s was rolled back by entry %d, want the first one, 4", version, got.Sequence)
		}
	}
	log = history("publish 1", "publish 2", "rollback 1", "rollback 2")
	if got := log.RolledBack("2.0.0"); got != nil {
		t.Errorf("2 was brought back, yet %v", got)
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"stable", "beta", "nightly-2", "a"} {
		if err := CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "Stable", "log", "releases", "staged", "uploads", "a/b", "..", ".x", "1st", "a b", "ñ", strings.Repeat("a", 33), "a\x00"} {
		if err := CheckName(bad); !errors.Is(err, ErrName) {
			t.Errorf("%q: error %v, want ErrName", bad, err)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	e := entry(Publish, "1.0.0", "", "")
	e.Sequence = 1
	data, err := e.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"sequence":1,"release":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeEntry(data)
		if err != nil {
			return
		}
		m := e.Render("https://example.com")
		shown, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if response, err := manifest.ParseResponse(shown); err != nil || response.Version.String() != strings.TrimPrefix(e.Version, "v") {
			t.Errorf("accepted an entry that clients can't read: %+v, %v", e, err)
		}
	})
}
