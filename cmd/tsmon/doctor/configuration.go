package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
)

// Checked is what `tsmon config check` prints.
type Checked struct {
	File     string           `json:"file,omitempty"` // absent if there is none
	Valid    bool             `json:"valid"`
	Problems []Finding        `json:"problems"`
	Settings []config.Setting `json:"settings"`
}

// CheckConfiguration looks for mistakes in the configuration, without a request to
// a store or a server.
func CheckConfiguration(i *config.Inspection, checkServer func(config.Server) error) Checked {
	if err := checkServer(i.Config.Server); err != nil { // which tsmon serve would refuse
		i.Add(config.Mistakes{{Setting: "server", Text: err.Error(), Mend: cli.HintFor(err)}})
	}
	c := Checked{File: i.File, Valid: len(i.Mistakes) == 0, Problems: []Finding{}, Settings: i.Settings()}
	for _, f := range configuration(i) {
		if f.Level == Error || f.Where != "" && f.Level == Warning {
			c.Problems = append(c.Problems, f)
		}
	}
	if at := slices.IndexFunc(c.Settings, func(s config.Setting) bool { return s.Name == "trusted_keys" }); at >= 0 {
		c.Settings[at].Value = keyIDs(i.Config.TrustedKeys)
	}
	return c
}

func configuration(i *config.Inspection) []Finding {
	n := &notes{area: areaConfiguration}
	for _, m := range i.Mistakes {
		n.at(m.Where()).fail(cmp.Or(m.Mend, "correct it; `tsmon help` and README.md show what a configuration has"), "%s", m.Text)
	}
	mistyped := i.Mistyped()
	for _, name := range slices.Sorted(maps.Keys(mistyped)) {
		n.at(name).warn("set "+mistyped[name]+" instead", "%s is not read; did you mean %s?", name, mistyped[name])
	}
	switch {
	case len(i.Mistakes) > 0:
	case i.File == "":
		n.at("").warn("`tsmon init` writes a tsmon.yaml; --config names one elsewhere", "there is no tsmon.yaml here: only the environment and defaults are in force")
	default:
		n.at(i.File).ok("no mistakes in %s", cli.Count(len(i.Settings()), "setting", "settings"))
	}
	return n.found
}

// keyIDs names trusted keys by their ids and spans, never by their text, in case one is
// private.
func keyIDs(all config.TrustedKeys) string {
	ids := make([]string, len(all))
	for i, key := range all {
		ids[i] = "(not a public key)"
		if keys, err := cli.Keyring(config.TrustedKeys{key}); err == nil {
			ids[i] = keys[0].Name()
		}
	}
	return strings.Join(ids, ", ")
}
