package tauri

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Finding is a setting of a project that keeps clients from their updates, with the line that
// fixes it.
type Finding struct {
	File    string `json:"file"`
	Member  string `json:"member"`          // such as bundle.createUpdaterArtifacts
	Problem string `json:"problem"`         // a sentence without its full stop
	Write   string `json:"write,omitempty"` // what to write, in the format of File
}

// DefaultIdentifier is what `tauri init` writes and `tauri build` refuses.
const DefaultIdentifier = "com.tauri.dev"

// Check compares the project with the place where its releases are published. Clients find the
// channels at PUBLICURL/CHANNEL/…
func (p *Project) Check(publicURL string, channels []string) []Finding {
	var found []Finding
	seen := map[string]bool{}
	for _, platform := range Platforms() {
		c := p.On(platform)
		for _, f := range slices.Concat(p.checkBundle(platform, c), p.checkEndpoints(c.Updater, publicURL, channels)) {
			// Settings that no overlay changes are the same on every platform.
			if key := f.Member + f.Problem; !seen[key] {
				seen[key] = true
				found = append(found, f)
			}
		}
	}
	return append(found, p.checkPlugin()...)
}

func (p *Project) finding(member, problem, value string) Finding {
	name := member[strings.LastIndex(member, ".")+1:]
	line := fmt.Sprintf("%q: %s", name, value)
	if p.format.name == "Tauri.toml" {
		line = name + " = " + value
	}
	return Finding{File: p.File, Member: member, Problem: problem, Write: line}
}

func (p *Project) checkBundle(platform string, c Config) []Finding {
	var found []Finding
	if c.Identifier == DefaultIdentifier {
		found = append(found, p.finding("identifier", "`tauri build` refuses the identifier "+DefaultIdentifier, `"com.example.app"`))
	}
	if !c.Bundle.Active {
		found = append(found, p.finding("bundle.active", "`tauri build` makes no bundles", "true"))
	}
	if c.Bundle.Artifacts == NoArtifacts {
		found = append(found, p.finding("bundle.createUpdaterArtifacts", "`tauri build` neither makes nor signs update files", "true"))
	}
	if len(p.Updatable(platform)) == 0 {
		found = append(found, Finding{File: p.fileOf(platform), Member: "bundle.targets",
			Problem: "none of the bundles for " + platform + " can be installed by the updater; add one of " + strings.Join(updatable[platform], ", ")})
	}
	return found
}

// fileOf returns the overlay of a platform, or else the main file.
func (p *Project) fileOf(platform string) string {
	if overlay := p.overlays[platform]; overlay != "" {
		return overlay
	}
	return p.File
}

func (p *Project) checkEndpoints(u Updater, publicURL string, channels []string) []Finding {
	const member = "plugins.updater.endpoints"
	if publicURL == "" || len(channels) == 0 {
		return nil
	}
	var found []Finding
	if len(u.Endpoints) == 0 {
		found = append(found, p.finding(member, "the application has no endpoint to ask for updates", suggestEndpoints([]string{""}, publicURL, channels)))
	}
	trial := strings.HasPrefix(publicURL, "http:")
	for _, endpoint := range u.Endpoints {
		if problem := CheckEndpoint(endpoint, publicURL, channels, u.AllowHTTP || trial); problem != "" {
			found = append(found, p.finding(member, endpoint+" "+problem, suggestEndpoints(u.Endpoints, publicURL, channels)))
		}
	}
	if trial && !u.AllowHTTP {
		found = append(found, p.finding("plugins.updater.dangerousInsecureTransportProtocol",
			publicURL+" is not https, which release builds require; serve public_url over https, or, for a trial, let the application ask over http", "true"))
	}
	return found
}

// suggestEndpoints returns endpoints below a public URL, as a JSON list. Each keeps its channel, if
// that exists, and its form, so that an application that asks a server still does.
func suggestEndpoints(endpoints []string, publicURL string, channels []string) string {
	var suggested []string
	for _, endpoint := range endpoints {
		channel, path := channels[0], staticPath
		for _, name := range channels {
			if strings.Contains(endpoint, "/"+name+"/") {
				channel = name
			}
		}
		switch plain := plainEndpoint(endpoint); {
		case strings.Contains(plain, "{{current_version}}"):
			path = dynamicPath + "?" + bundleType
		case strings.Contains(plain, "/rings/"):
			path = plain[strings.LastIndex(plain, "/rings/")+1:]
		}
		if address := strconv.Quote(strings.TrimRight(publicURL, "/") + "/" + channel + "/" + path); !slices.Contains(suggested, address) {
			suggested = append(suggested, address)
		}
	}
	return "[" + strings.Join(suggested, ", ") + "]"
}

// Paths below a channel that clients may request.
const (
	staticPath  = "latest.json"
	dynamicPath = "{{target}}/{{arch}}/{{current_version}}"
	bundleType  = "bundle_type={{bundle_type}}"
)

// CheckEndpoint returns why an endpoint does not lead to a channel below publicURL, "" if it
// does.
func CheckEndpoint(endpoint, publicURL string, channels []string, allowHTTP bool) string {
	address := plainEndpoint(endpoint)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "is not an address"
	}
	if u.Scheme != "https" && !allowHTTP {
		return "is not https, which release builds require"
	}
	channel, path, query, below := splitEndpoint(address, publicURL)
	switch {
	case !below:
		return "is not below " + publicURL
	case !slices.Contains(channels, channel):
		return "names a channel that is none of " + strings.Join(channels, ", ")
	case isManifest(path):
		return ""
	case path == dynamicPath && slices.Contains(strings.Split(query, "&"), bundleType):
		return ""
	case path == dynamicPath:
		return "does not say the bundle type; add ?" + bundleType
	}
	return "is neither CHANNEL/" + staticPath + " nor CHANNEL/" + dynamicPath + "?" + bundleType
}

// plainEndpoint decodes an endpoint's variables and removes spaces.
func plainEndpoint(endpoint string) string {
	return strings.NewReplacer("%7B", "{", "%7b", "{", "%7D", "}", "%7d", "}", " ", "").Replace(endpoint)
}

// splitEndpoint splits a plain endpoint at the parts below publicURL.
func splitEndpoint(address, publicURL string) (channel, path, query string, below bool) {
	rest, below := strings.CutPrefix(address, strings.TrimRight(publicURL, "/")+"/")
	channel, path, _ = strings.Cut(rest, "/")
	path, query, _ = strings.Cut(path, "?")
	return channel, path, query, below
}

func isManifest(path string) bool {
	return path == staticPath || strings.HasPrefix(path, "rings/") && strings.HasSuffix(path, "/"+staticPath)
}

// ReadsManifest reports whether the application of any platform reads a manifest
// below publicURL.
func (p *Project) ReadsManifest(publicURL string) bool {
	return slices.Contains(slices.Collect(maps.Values(p.Asks(publicURL))), true)
}

// Asks returns the channels below publicURL that the application asks on any platform. The value is
// true if it reads their manifest, and false if it asks the server. Only the first endpoint below
// publicURL counts, since later ones are asked only if that fails.
func (p *Project) Asks(publicURL string) map[string]bool {
	reads := map[string]bool{}
	for _, platform := range Platforms() {
		for _, endpoint := range p.On(platform).Updater.Endpoints {
			if channel, path, _, below := splitEndpoint(plainEndpoint(endpoint), publicURL); below {
				reads[channel] = reads[channel] || isManifest(path)
				break
			}
		}
	}
	return reads
}

func (p *Project) checkPlugin() []Finding {
	file := filepath.Join(p.Dir(), "Cargo.toml")
	data, err := readFile(file)
	if err != nil || strings.Contains(string(data), "tauri-plugin-updater") {
		return nil
	}
	return []Finding{{File: file, Member: "dependencies", Problem: "the application lacks the updater plugin; `tauri add updater` adds it"}}
}
