package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"tsmon/signing"
)

var (
	// ErrNotJSON says that an answer is no JSON at all: the updater aborts.
	ErrNotJSON = errors.New("the answer is not JSON")
	// ErrShape says that an answer is JSON of the wrong shape: the updater goes
	// on to its next endpoint.
	ErrShape = errors.New("the answer is not a release")
	// ErrTarget says that an answer holds nothing for a client's platform.
	ErrTarget = errors.New("no update for this platform")
)

// Client is one installed application, as far as the updater's decisions
// depend on it.
type Client struct {
	Version    string // what is installed
	Target     string // OS-ARCH
	BundleType string // see Key; empty or "unknown" where the bundle does not tell
}

// Response is an answer of an update endpoint as the updater reads it.
type Response struct {
	Version   Version
	Notes     string
	PubDate   time.Time           // zero if absent
	Platforms map[string]Platform // static form; nil in the dynamic one
	Dynamic   Platform            // dynamic form: one platform, whatever the target
	Sequence  uint64              // our additional member, 0 if absent or unreadable
	Extra                         // each zero if absent or unreadable
}

// ParseResponse reads an answer as the updater does: unknown members are
// ignored, of duplicates the last counts, leading v's are stripped, platforms
// wins over url and signature, and every platform must be whole. Errors wrap
// ErrNotJSON or ErrShape.
func ParseResponse(body []byte) (*Response, error) {
	if err := checkJSON(body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	members, err := objectOf(body)
	if err != nil {
		return nil, err
	}
	r := &Response{}
	if err := r.parseVersion(members); err != nil {
		return nil, err
	}
	if r.Notes, _, err = optionalText(members, "notes"); err != nil {
		return nil, err
	}
	if err := r.parseDate(members); err != nil {
		return nil, err
	}
	// These are not the updater's: unreadable means absent.
	_ = json.Unmarshal(members["sequence"], &r.Sequence)
	_ = json.Unmarshal(members["minimum_version"], &r.MinimumVersion)
	_ = json.Unmarshal(members["critical"], &r.Critical)
	_ = json.Unmarshal(members["watershed"], &r.Watershed)
	if err := r.parsePlatforms(members); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Response) parseVersion(members map[string]json.RawMessage) error {
	_, hasVersion := members["version"]
	_, hasName := members["name"]
	if hasVersion && hasName {
		return fmt.Errorf("%w: both version and its alias name are present", ErrShape)
	}
	name := "version"
	if hasName {
		name = "name"
	}
	text, err := requiredText(members, name)
	if err != nil {
		return err
	}
	if r.Version, err = ParseClientVersion(text); err != nil {
		return fmt.Errorf("%w: %w", ErrShape, err)
	}
	return nil
}

func (r *Response) parseDate(members map[string]json.RawMessage) error {
	text, ok, err := optionalText(members, "pub_date")
	if err != nil || !ok {
		return err
	}
	if r.PubDate, err = parseClientDate(text); err != nil {
		return fmt.Errorf("%w: pub_date %q is not RFC 3339", ErrShape, text)
	}
	return nil
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

// parsePlatforms reads both forms. The static one wins, but does not excuse a
// bad url or signature beside it.
func (r *Response) parsePlatforms(members map[string]json.RawMessage) error {
	raw, static := members["platforms"]
	if !static || string(raw) == "null" {
		p, err := parsePlatform(members)
		r.Dynamic = p
		return err
	}
	if _, _, err := optionalURL(members); err != nil {
		return err
	}
	if _, _, err := optionalText(members, "signature"); err != nil {
		return err
	}
	platforms, err := objectOf(raw)
	if err != nil {
		return fmt.Errorf("platforms: %w", err)
	}
	r.Platforms = make(map[string]Platform, len(platforms))
	for _, key := range sortedKeys(platforms) {
		of, err := objectOf(platforms[key])
		if err != nil {
			return fmt.Errorf("platforms.%s: %w", key, err)
		}
		if r.Platforms[key], err = parsePlatform(of); err != nil {
			return fmt.Errorf("platforms.%s: %w", key, err)
		}
	}
	return nil
}

func parsePlatform(members map[string]json.RawMessage) (Platform, error) {
	address, ok, err := optionalURL(members)
	if err == nil && !ok {
		err = fmt.Errorf("%w: url is missing", ErrShape)
	}
	if err != nil {
		return Platform{}, err
	}
	signature, err := requiredText(members, "signature")
	if err != nil {
		return Platform{}, err
	}
	return Platform{Signature: signature, URL: address}, nil
}

func optionalURL(members map[string]json.RawMessage) (address string, ok bool, err error) {
	address, ok, err = optionalText(members, "url")
	if err != nil || !ok {
		return "", false, err
	}
	if err := checkClientURL(address); err != nil {
		return "", false, fmt.Errorf("%w: url %q is no address that the updater accepts: %w", ErrShape, address, err)
	}
	return address, true, nil
}

func objectOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%w: an object was expected", ErrShape)
	}
	return members, nil
}

func requiredText(members map[string]json.RawMessage, name string) (string, error) {
	text, ok, err := optionalText(members, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s is missing", ErrShape, name)
	}
	return text, err
}

func optionalText(members map[string]json.RawMessage, name string) (text string, ok bool, err error) {
	raw, ok := members[name]
	if !ok || string(raw) == "null" {
		return "", false, nil
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", false, fmt.Errorf("%w: %s is no string", ErrShape, name)
	}
	return text, true, nil
}

// Lookup finds the platform for a client: OS-ARCH-TYPE first, then OS-ARCH. In
// the dynamic form there is one for everybody, with an empty key. Errors wrap
// ErrTarget.
func (r *Response) Lookup(target, bundleType string) (key string, p Platform, err error) {
	if r.Platforms == nil {
		return "", r.Dynamic, nil
	}
	keys := candidates(target, bundleType)
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
	current, err := ParseClientVersion(c.Version)
	if err != nil {
		return nil, err
	}
	if r.Version.Compare(current) <= 0 {
		return nil, nil
	}
	key, p, err := r.Lookup(c.Target, c.BundleType)
	if err != nil {
		return nil, err
	}
	return &Offer{Version: r.Version.String(), Current: c.Version, Key: key, Notes: r.Notes, PubDate: r.PubDate, Platform: p}, nil
}

// Verifier returns what the offer's bundle is to be written to, after every
// check that needs no bundle: the signature's form, its key, the version that
// it is bound to. The version is read from the trusted comment, which only the
// verifier's final Verify proves. Errors are those of package signing.
func (o *Offer) Verifier(keys signing.Keyring, requireVersion bool) (*signing.Verifier, error) {
	sig, err := keys.Accept(o.Signature, signing.Claim{Version: o.Version, AllowUnbound: !requireVersion})
	if err != nil {
		return nil, err
	}
	return keys.Verifier(sig)
}

// Unbound lists the platform keys whose signatures name no version, which
// applications that require a signed version refuse.
func (m *Manifest) Unbound() []string {
	var keys []string
	for _, key := range m.Keys() {
		sig, err := signing.ParseSignature(m.Platforms[key].Signature)
		if _, bound := sig.Version(); err == nil && !bound {
			keys = append(keys, key)
		}
	}
	return keys
}

// Outcome is what one client makes of a manifest.
type Outcome struct {
	Client Client
	Offer  *Offer // nil: up to date, or Err
	Err    error  // the update is broken for this client
}

// Replay plays the updater of each client against the bytes of a manifest,
// with requireVersion as strict applications do it: parsing, look-up,
// comparison, and the signature as far as it can be judged without the bundle. A
// missing platform is an error for every client, as it was before plugin 2.14.
func Replay(data []byte, clients []Client, keys signing.Keyring, requireVersion bool) []Outcome {
	outcomes := make([]Outcome, len(clients))
	response, err := ParseResponse(data)
	for i, c := range clients {
		outcomes[i] = Outcome{Client: c, Err: err}
		if err == nil {
			outcomes[i].Offer, outcomes[i].Err = replay(response, c, keys, requireVersion)
		}
	}
	return outcomes
}

func replay(r *Response, c Client, keys signing.Keyring, requireVersion bool) (*Offer, error) {
	if _, _, err := r.Lookup(c.Target, c.BundleType); err != nil {
		return nil, err
	}
	offer, err := r.OfferTo(c)
	if err != nil || offer == nil {
		return nil, err
	}
	_, err = offer.Verifier(keys, requireVersion)
	return offer, err
}
