package approval

import (
	"cmp"
	"maps"
	"slices"

	"tsmon/channels"
)

// Quorum says how many of some operators have signed an entry.
type Quorum struct {
	Of      string   `json:"of"` // "in force" or "new"
	Has     int      `json:"has"`
	Needs   int      `json:"needs"`
	Missing []string `json:"missing"` // who may sign and has not, sorted
}

// Need says which signatures an entry needs.
type Need struct {
	Approvals int      `json:"approvals"`
	MaySign   []string `json:"may_sign"` // operators any of whom may give them, sorted
	// Quorums are set if the entry replaces operators: it needs those of the present and of the
	// new ones.
	Quorums []Quorum `json:"quorums,omitempty"`
}

// quorumsOf counts the signatures of an entry that replaces operators, for the old and for
// the new ones, both of whom must agree. It returns nil for any other entry. signed are the
// keys that signed.
func quorumsOf(force *channels.Operators, e *channels.Entry, signed []string) (all []Quorum) {
	if force == nil || e.Operators == nil {
		return nil
	}
	for i, o := range []*channels.Operators{force, e.Operators} {
		q := Quorum{Of: []string{"in force", "new"}[i], Needs: o.Approvals, Missing: []string{}}
		for who, key := range o.Keys {
			if slices.Contains(signed, key) {
				q.Has++
			} else {
				q.Missing = append(q.Missing, who)
			}
		}
		slices.Sort(q.Missing)
		all = append(all, q)
	}
	return all
}

// maySign names the operators whose signatures of an entry can count where others are in
// force, as signerOf does, sorted.
func maySign(force *channels.Operators, e *channels.Entry) (names []string) {
	for _, o := range []*channels.Operators{force, e.Operators} {
		if o == nil {
			continue
		}
		keys := maps.Clone(o.Keys)
		if e.Action == channels.Pause {
			maps.Copy(keys, o.Servers)
		}
		for _, key := range keys {
			names = append(names, signerOf(force, e, key))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// signerOf returns the name of the operator who has a key and may sign an entry, or an empty
// string. If the entry replaces an operator's key, the owner of the new one is NAME.new,
// because both may have to sign.
func signerOf(force *channels.Operators, e *channels.Entry, key string) (who string) {
	if force != nil {
		who = force.NameOf(key)
	}
	if who == "" && e.Operators != nil {
		if who = e.Operators.NameOf(key); force != nil && cmp.Or(force.Keys[who], force.Servers[who]) != "" {
			who += ".new"
		}
	}
	return who
}
