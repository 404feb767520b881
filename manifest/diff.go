package manifest

import (
	"strconv"
	"time"
)

// Change is one member that differs between two manifests.
type Change struct {
	Place  string `json:"place"`  // member path such as platforms.linux-x86_64.url
	Before string `json:"before"` // empty if the member is new
	After  string `json:"after"`  // empty if the member is gone
}

// Diff lists what changes from a to b: version, notes, pub_date, the members of
// Extra, sequence, then the platforms by key.
func Diff(a, b *Manifest) []Change {
	var changes []Change
	add := func(place, before, after string) {
		if before != after {
			changes = append(changes, Change{place, before, after})
		}
	}
	add("version", a.Version, b.Version)
	add("notes", a.Notes, b.Notes)
	add("pub_date", dateText(a.PubDate), dateText(b.PubDate))
	add("minimum_version", a.MinimumVersion, b.MinimumVersion)
	add("critical", flagText(a.Critical), flagText(b.Critical))
	add("watershed", flagText(a.Watershed), flagText(b.Watershed))
	add("sequence", sequenceText(a.Sequence), sequenceText(b.Sequence))
	all := map[string]bool{}
	for key := range a.Platforms {
		all[key] = true
	}
	for key := range b.Platforms {
		all[key] = true
	}
	for _, key := range sortedKeys(all) {
		before, after := a.Platforms[key], b.Platforms[key]
		add("platforms."+key+".url", before.URL, after.URL)
		add("platforms."+key+".signature", before.Signature, after.Signature)
	}
	return changes
}

func dateText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func flagText(set bool) string {
	if !set {
		return ""
	}
	return "true"
}

func sequenceText(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
