package bundle

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tsmon/manifest"
)

// Merge gives bundles that were gathered apart, such as on the machines of a build
// matrix, the platform keys that Gather would have given them in one folder. Of a
// bundle it reads Path, Name, Target, Type, Given and Also. Archives that get no key are
// left out.
func Merge(bundles []Bundle, rules *Rules) ([]Bundle, error) {
	g := &gatherer{rules: *cmp.Or(rules, &Rules{})}
	for _, b := range bundles {
		b.kind, _ = Recognize(filepath.Base(b.Path))
		b.Keys, b.Downloads = nil, nil
		b.Also = b.Also || g.rules.leaveOut(b.kind)
		g.bundles = append(g.bundles, b)
	}
	return g.assign()
}

// assign gives every bundle its platform keys, as Gather says, and returns those
// that got one, and what new users download.
func (g *gatherer) assign() ([]Bundle, error) {
	byKey := map[string]*Bundle{}
	if err := g.assignExplicit(byKey); err != nil {
		return nil, err
	}
	if err := g.assignTypes(byKey); err != nil {
		return nil, err
	}
	g.assignPlain(byKey)
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		byKey[key].Keys = append(byKey[key].Keys, key)
	}
	var used []Bundle
	for _, b := range g.bundles {
		if len(b.Keys) > 0 || b.Also || !b.kind.Archive {
			b.Also = len(b.Keys) == 0
			used = append(used, b)
			continue
		}
		key := targetsOf(b.Target)[0] + "-" + b.Type
		g.skip("%s, since %s is taken for %s", b.Path, byKey[key].Path, key)
	}
	assignDownloads(used)
	return used, nil
}

func targetsOf(target string) []string {
	if target == manifest.Universal {
		return []string{"darwin-x86_64", "darwin-aarch64"}
	}
	return []string{target}
}

// assignExplicit assigns first the keys that the user gave, then the keys with a type of the
// same bundles.
func (g *gatherer) assignExplicit(byKey map[string]*Bundle) error {
	for i := range g.bundles {
		b := &g.bundles[i]
		if b.Also {
			continue
		}
		for _, given := range b.Given {
			for _, key := range targetsOf(given) {
				if other := byKey[key]; other != nil && other != b {
					return Refuse(ErrBundles, "give one --bundle for each key", "%s and %s are both for %s", other.Path, b.Path, key)
				}
				byKey[key] = b
			}
		}
	}
	for key, b := range maps.Clone(byKey) {
		if k, err := manifest.ParseKey(key); err == nil && k.Type == "" && b.Type != "" && byKey[key+"-"+b.Type] == nil {
			byKey[key+"-"+b.Type] = b
		}
	}
	return nil
}

// assignTypes assigns the keys with a type to the other bundles.
func (g *gatherer) assignTypes(byKey map[string]*Bundle) error {
	candidates := map[string][]*Bundle{}
	for i := range g.bundles {
		b := &g.bundles[i]
		for _, target := range targetsOf(b.Target) {
			key := target + "-" + b.Type
			if !b.Also && b.Given == nil && byKey[key] == nil {
				candidates[key] = append(candidates[key], b)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(candidates)) {
		best := preferred(candidates[key])
		if len(best) > 1 {
			return Refuse(ErrBundles, "choose one with --bundle "+key+"="+best[0].Path, "%s and %s are both for %s", best[0].Path, best[1].Path, key)
		}
		byKey[key] = best[0]
	}
	return nil
}

// preferred drops those of the bundles of one key that another one is preferred to.
func preferred(bundles []*Bundle) []*Bundle {
	for _, better := range []func(*Bundle) bool{
		func(b *Bundle) bool { return b.Target != manifest.Universal },
		func(b *Bundle) bool { return b.kind.Archive },
		func(b *Bundle) bool { return b.kind.locale == "en-US" },
	} {
		if slices.ContainsFunc(bundles, better) {
			bundles = slices.DeleteFunc(bundles, func(b *Bundle) bool { return !better(b) })
		}
	}
	return bundles
}

// assignPlain assigns the keys without a type that were not given.
func (g *gatherer) assignPlain(byKey map[string]*Bundle) {
	order := []string{"appimage", "app", "nsis", "msi"}
	if g.rules.WindowsInstaller == "msi" {
		order = []string{"appimage", "app", "msi", "nsis"}
	}
	for _, kind := range order {
		for key, b := range maps.Clone(byKey) {
			if target, ok := strings.CutSuffix(key, "-"+kind); ok && byKey[target] == nil {
				byKey[target] = b
			}
		}
	}
}

// distinguish gives bundles with equal names different ones.
func distinguish(bundles []Bundle) {
	count := map[string]int{}
	for _, b := range bundles {
		count[strings.ToLower(b.Name)]++
	}
	for i := range bundles {
		if b := &bundles[i]; count[strings.ToLower(b.Name)] > 1 {
			b.Name = Distinct(b.Name, append(append(slices.Clone(b.Keys), b.Downloads...), strconv.Itoa(i+1))[0])
		}
	}
}
