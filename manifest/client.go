package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tsmon/signing"
)

var (
	// ErrNotJSON means that an answer is not JSON: the updater aborts.
	ErrNotJSON = errors.New("the answer is not JSON")
	// ErrShape means that an answer is JSON but not a release: the updater goes on
	// to its next endpoint.
	ErrShape = errors.New("the answer is not a release")
	// ErrTarget means that an answer has nothing for a client's platform.
	ErrTarget = errors.New("no update for this platform")
)

// Client describes an installed application: what the updater's decisions depend on.
type Client struct {
	Version    string // installed
	Target     string // OS-ARCH
	BundleType string // that it was installed from, see Key; empty or "unknown" if the application doesn't say
	// Named is what the application sets with target(): the value of {{target}} in
	// endpoints, and the only key that it looks up. Empty if it sets none.
	Named string
	// Downgrades is the application's allowDowngrades: every other version is an
	// update.
	Downgrades bool
}

// Response is an answer of an update endpoint as the updater reads it.
type Response struct {
	Version       Version
	Notes         string
	PubDate       time.Time           // zero if absent
	Platforms     map[string]Platform // static form; nil in the dynamic one
	Dynamic       Platform            // dynamic form: one platform, whatever the target
	Sequence      uint64              // ours; 0 if absent or unreadable
	Extra                             // ours; zero if absent or unreadable
	CriticalBelow string              // ours, as in Manifest
}

// ParseResponse reads an answer as the updater does: unknown members are
// ignored, of duplicates the last counts, leading v's are stripped, platforms
// wins over url and signature, and every platform must be complete. Errors wrap
// ErrNotJSON or ErrShape.
func ParseResponse(body []byte) (*Response, error) {
	root, err := parseClientTree(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	s := &shape{}
	s.expect(root.kind == object, "an object was expected")
	r := &Response{Version: s.version(root)}
	r.Notes, _ = s.text(root, "notes")
	if date, ok := s.text(root, "pub_date"); ok {
		r.PubDate, err = parseClientDate(date)
		s.expect(err == nil, "pub_date %q is not RFC 3339", date)
	}
	r.parseOurs(root)
	if platforms := root.last("platforms"); platforms == nil || platforms.isNull() {
		r.Dynamic = s.platform(root)
	} else { // the static form wins, but does not excuse a bad url or signature beside it
		s.url(root)
		s.text(root, "signature")
		r.Platforms = s.platforms(platforms)
	}
	if s.err != nil {
		return nil, s.err
	}
	return r, nil
}

// shape reads members as the updater's deserializer does. After the first deviation,
// which it keeps, it returns zero values.
type shape struct{ err error }

func (s *shape) expect(ok bool, format string, args ...any) bool {
	if !ok && s.err == nil {
		s.err = fmt.Errorf("%w: "+format, append([]any{ErrShape}, args...)...)
	}
	return s.err == nil
}

// text returns a member that is a string; ok is false if it is absent or null.
func (s *shape) text(n *node, name string) (text string, ok bool) {
	m := n.last(name)
	if m == nil || m.isNull() {
		return "", false
	}
	text, ok = m.value.(string)
	return text, s.expect(ok, "%s is not a string", name)
}

func (s *shape) required(n *node, name string) string {
	text, ok := s.text(n, name)
	s.expect(ok, "%s is missing", name)
	return text
}

func (s *shape) version(root *node) Version {
	name := "version"
	if root.last("name") != nil {
		s.expect(root.last("version") == nil, "both version and its alias name are present")
		name = "name"
	}
	v, err := ParseClientVersion(s.required(root, name))
	s.expect(err == nil, "%w", err)
	return v
}

func (s *shape) url(n *node) (address string, ok bool) {
	if address, ok = s.text(n, "url"); !ok {
		return "", false
	}
	err := checkClientURL(address)
	return address, s.expect(err == nil, "url %q is not accepted by the updater: %w", address, err)
}

func (s *shape) platform(n *node) Platform {
	s.expect(n.kind == object, "an object was expected")
	address, ok := s.url(n)
	s.expect(ok, "url is missing")
	return Platform{Signature: s.required(n, "signature"), URL: address}
}

func (s *shape) platforms(n *node) map[string]Platform {
	if !s.expect(n.kind == object, "platforms must be an object") {
		return nil
	}
	last := map[string]*node{}
	for _, m := range n.members {
		last[m.name] = m.value
	}
	platforms := make(map[string]Platform, len(last))
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if platforms[key] = s.platform(last[key]); s.err != nil {
			s.err = fmt.Errorf("platforms.%s: %w", key, s.err)
			return nil
		}
	}
	return platforms
}

// parseOurs reads the members that the updater does not know, as far as it can.
func (r *Response) parseOurs(root *node) {
	value := func(name string) any {
		if n := root.last(name); n != nil {
			return n.value
		}
		return nil
	}
	number, _ := value("sequence").(json.Number)
	r.Sequence, _ = strconv.ParseUint(number.String(), 10, 64)
	r.MinimumVersion, _ = value("minimum_version").(string)
	r.Critical, _ = value("critical").(bool)
	r.CriticalBelow, _ = value("critical_below").(string)
	r.Watershed, _ = value("watershed").(bool)
}

// rfc3339 refuses what time.Parse takes beyond RFC 3339: a single-digit hour, a
// decimal comma, and offsets out of range.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func parseDate(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err == nil && !rfc3339.MatchString(text) {
		err = errors.New("not RFC 3339")
	}
	return t, err
}

// parseClientDate reads RFC 3339 as Rust's time crate does: with any ASCII
// character between date and time, a z in either case, and a leap second at the
// end of a month in UTC, which becomes the nanosecond before it.
func parseClientDate(text string) (t time.Time, err error) {
	if len(text) < len("2006-01-02T15:04:05") || text[10] > unicode.MaxASCII {
		return t, errors.New("too short, or a foreign separator")
	}
	clock := strings.ToUpper(text[11:])
	leap := clock[6:8] == "60"
	if leap {
		clock = clock[:6] + "59" + clock[8:]
	}
	t, err = parseDate(text[:10] + "T" + clock)
	if err != nil || !leap {
		return t, err
	}
	next := t.Truncate(time.Second).Add(time.Second).UTC()
	if next.Day() != 1 || next.Hour()+next.Minute()+next.Second() != 0 {
		err = errors.New("no leap second")
	}
	return next.Add(-1), err
}

// Lookup finds a client's platform: the key that it names, else OS-ARCH-TYPE, else
// OS-ARCH. The dynamic form has one for every client, with an empty key. Errors wrap
// ErrTarget.
func (r *Response) Lookup(c Client) (key string, p Platform, err error) {
	if r.Platforms == nil {
		return "", r.Dynamic, nil
	}
	keys := c.keys()
	for _, key := range keys {
		if p, ok := r.Platforms[key]; ok {
			return key, p, nil
		}
	}
	return "", Platform{}, fmt.Errorf("%w: the manifest has no %s", ErrTarget, strings.Join(keys, " and no "))
}

// Offer is what one client is offered.
type Offer struct {
	Version string    `json:"version"`
	Current string    `json:"current"`
	Key     string    `json:"key"` // platform key that matched; empty in the dynamic form
	Notes   string    `json:"notes"`
	PubDate time.Time `json:"pub_date,omitzero"`
	Platform
}

// OfferTo decides as the updater does since plugin 2.14: it compares versions,
// then looks up the platform of a newer one. It returns nil when the client is up
// to date. Errors wrap ErrTarget or, for the client's own version, ErrVersion.
func (r *Response) OfferTo(c Client) (*Offer, error) {
	installed, err := ParseClientVersion(c.Version)
	if err != nil || !r.updates(installed, c.Downgrades) {
		return nil, err
	}
	key, p, err := r.Lookup(c)
	if err != nil {
		return nil, err
	}
	return r.offer(c, key, p), nil
}

// updates reports whether the version of an answer is an update for an installed one.
func (r *Response) updates(installed Version, downgrades bool) bool {
	order := r.Version.Compare(installed)
	return order > 0 || downgrades && order != 0
}

// CriticalTo reports whether an installed version has a critical release ahead of it,
// up to that of the answer.
func (r *Response) CriticalTo(installed Version) bool {
	below, err := Version{}, ErrVersion
	if r.CriticalBelow != "" {
		below, err = ParseVersion(r.CriticalBelow)
	}
	if err != nil {
		return r.Critical && installed.Compare(r.Version) < 0
	}
	return installed.Compare(below) < 0
}

// MinimumTo returns the minimum version, empty for an installed version that is not
// below it.
func (r *Response) MinimumTo(installed Version) string {
	if r.MinimumVersion == "" {
		return ""
	}
	if minimum, err := ParseVersion(r.MinimumVersion); err != nil || installed.Compare(minimum) >= 0 {
		return ""
	}
	return r.MinimumVersion
}

func (r *Response) offer(c Client, key string, p Platform) *Offer {
	return &Offer{Version: r.Version.String(), Current: c.Version, Key: key, Notes: r.Notes, PubDate: r.PubDate, Platform: p}
}

// Verifier checks everything about the offer's signature that needs no bundle, with
// the keys that the installed version has, and returns the verifier to write the
// bundle to. Only its Verify proves the version that the signature is bound to.
// Errors are those of package signing.
func (o *Offer) Verifier(keys signing.Keyring, requireVersion bool) (*signing.Verifier, error) {
	sig, err := keys.Accept(o.Signature, signing.Claim{Version: o.Version, AllowUnbound: !requireVersion, Installed: o.Current})
	if err != nil {
		return nil, err
	}
	return keys.Verifier(sig)
}

// Unbound returns the platform keys whose signatures name no version. Applications
// that require a signed version refuse those.
func (m *Manifest) Unbound() []string {
	return slices.DeleteFunc(m.Keys(), func(key string) bool {
		sig, err := signing.ParseSignature(m.Platforms[key].Signature)
		_, bound := sig.Version()
		return err != nil || bound
	})
}
