package tauri

import (
	"slices"
	"strings"
)

// members reads typed members of a document and keeps the first error.
type members struct {
	doc *document
	err error
}

// config reads what a document says. Members that are null count as absent.
func (d *document) config() (Config, error) {
	m := &members{doc: d}
	c := Config{
		ProductName: m.text("productName"),
		Identifier:  m.text("identifier"),
		Version:     m.text("version"),
		Bundle: Bundle{
			Active:    m.flag("bundle.active"),
			Targets:   m.bundleTargets(),
			Artifacts: m.artifacts(),
		},
		Updater: Updater{
			Pubkey:        strings.TrimSpace(m.text("plugins.updater.pubkey")),
			Endpoints:     m.texts("plugins.updater.endpoints"),
			AllowHTTP:     m.flag("plugins.updater.dangerousInsecureTransportProtocol"),
			RequireSigned: m.flag("plugins.updater.requireSignedVersion"),
			Downgrades:    m.flag("plugins.updater.allowDowngrades"),
		},
	}
	return c, m.err
}

// aliases are other names that Tauri accepts.
var aliases = map[string]string{
	"productName":                        "product-name",
	"dangerousInsecureTransportProtocol": "dangerous-insecure-transport-protocol",
	"requireSignedVersion":               "require-signed-version",
	"allowDowngrades":                    "allow-downgrades",
}

// value returns a member by its dotted path, or nil.
func (m *members) value(path string) any {
	var value any = m.doc.tree
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			m.fail(path, "can't be read: a member on its path is not an object")
			return nil
		}
		if value = object[name]; value == nil && aliases[name] != "" {
			value = object[aliases[name]]
		}
		if value == nil {
			return nil
		}
	}
	return value
}

func (m *members) fail(path, problem string) {
	if m.err == nil {
		m.err = m.doc.memberError(path, problem)
	}
}

// member returns a member of a type, or its zero value.
func member[T any](m *members, path, kind string) T {
	value := m.value(path)
	typed, ok := value.(T)
	if !ok && value != nil {
		m.fail(path, "is not "+kind)
	}
	return typed
}

func (m *members) text(path string) string { return member[string](m, path, "a string") }

func (m *members) flag(path string) bool { return member[bool](m, path, "true or false") }

func (m *members) texts(path string) []string {
	var texts []string
	for _, value := range member[[]any](m, path, "a list") {
		text, ok := value.(string)
		if !ok {
			m.fail(path, "is not a list of strings")
		}
		texts = append(texts, text)
	}
	return texts
}

var bundleTypes = []string{"deb", "rpm", "appimage", "msi", "nsis", "app", "dmg"}

// updatable are the bundle types of each platform that the updater installs.
var updatable = map[string][]string{
	Linux:   {"appimage", "deb", "rpm"},
	Windows: {"nsis", "msi"},
	MacOS:   {"app"},
}

func (m *members) bundleTargets() []string {
	const path = "bundle.targets"
	var targets []string
	switch value := m.value(path).(type) {
	case nil:
		return nil
	case string:
		if strings.EqualFold(value, "all") {
			return nil
		}
		targets = []string{value}
	case []any:
		targets = m.texts(path)
	default:
		m.fail(path, `is neither "all", a bundle type nor a list of them`)
	}
	kept := []string{} // an empty list asks for no bundle, nil for all
	for _, t := range targets {
		t = strings.ToLower(t)
		if !slices.Contains(bundleTypes, t) {
			m.fail(path, "names a bundle type that is none of "+strings.Join(bundleTypes, ", "))
		}
		kept = append(kept, t)
	}
	return kept
}

func (m *members) artifacts() Artifacts {
	const path = "bundle.createUpdaterArtifacts"
	switch value := m.value(path); value {
	case nil, false:
		return NoArtifacts
	case true:
		return Installers
	case string(V1Compatible):
		return V1Compatible
	}
	m.fail(path, `is neither true, false nor "v1Compatible"`)
	return NoArtifacts
}

// Updatable returns the bundle types of a platform that are built and that the updater can
// install. The first one is for clients of unknown type.
func (p *Project) Updatable(platform string) []string {
	built := p.On(platform).Bundle.Targets
	return slices.DeleteFunc(slices.Clone(updatable[platform]), func(t string) bool { return built != nil && !slices.Contains(built, t) })
}
