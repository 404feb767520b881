package bundle

import "path/filepath"

// Merge gives bundles that were gathered apart, such as on the machines of a build
// matrix, the platform keys that Gather would have given them in one folder. Of a
// bundle it reads Path, Name, Target, Type, Given and Also. Archives that get no key are
// left out.
func Merge(bundles []Bundle, rules *Rules) ([]Bundle, error) {
	g := &gatherer{}
	if rules != nil {
		g.rules = *rules
	}
	for _, b := range bundles {
		b.kind, _ = Recognize(filepath.Base(b.Path))
		b.Keys, b.Downloads = nil, nil
		b.Also = b.Also || g.rules.leaveOut(b.kind)
		g.bundles = append(g.bundles, b)
	}
	return g.assign()
}
