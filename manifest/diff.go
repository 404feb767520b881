package manifest

import (
	"slices"
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
	before, after := a.texts(), b.texts()
	places := []string{"version", "notes", "pub_date", "minimum_version", "critical", "critical_below", "watershed", "sequence"}
	keys := append(a.Keys(), b.Keys()...)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		places = append(places, "platforms."+key+".url", "platforms."+key+".signature")
	}
	var changes []Change
	for _, place := range places {
		if before[place] != after[place] {
			changes = append(changes, Change{place, before[place], after[place]})
		}
	}
	return changes
}

// texts returns the members that are present, by place.
func (m *Manifest) texts() map[string]string {
	texts := map[string]string{"version": m.Version, "notes": m.Notes, "minimum_version": m.MinimumVersion, "critical_below": m.CriticalBelow}
	for place, set := range map[string]bool{"critical": m.Critical, "watershed": m.Watershed} {
		if set {
			texts[place] = "true"
		}
	}
	if !m.PubDate.IsZero() {
		texts["pub_date"] = m.PubDate.UTC().Format(time.RFC3339)
	}
	if m.Sequence > 0 {
		texts["sequence"] = strconv.FormatUint(m.Sequence, 10)
	}
	for key, p := range m.Platforms {
		texts["platforms."+key+".url"], texts["platforms."+key+".signature"] = p.URL, p.Signature
	}
	return texts
}
