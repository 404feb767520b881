package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
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
	root, err := parseClientTree(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	if root.kind != object {
		return nil, errNoObject
	}
	r := &Response{}
	if err := r.parseVersion(root); err != nil {
		return nil, err
	}
	if r.Notes, _, err = optionalText(root, "notes"); err != nil {
		return nil, err
	}
	date, dated, err := optionalText(root, "pub_date")
	if err == nil && dated {
		if r.PubDate, err = parseClientDate(date); err != nil {
			err = fmt.Errorf("%w: pub_date %q is not RFC 3339", ErrShape, date)
		}
	}
	if err != nil {
		return nil, err
	}
	r.parseOurs(root)
	if err := r.parsePlatforms(root); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Response) parseVersion(root *node) error {
	name := "version"
	if root.last("name") != nil {
		if root.last("version") != nil {
			return fmt.Errorf("%w: both version and its alias name are present", ErrShape)
		}
		name = "name"
	}
	text, err := requiredText(root, name)
	if err != nil {
		return err
	}
	if r.Version, err = ParseClientVersion(text); err != nil {
		return fmt.Errorf("%w: %w", ErrShape, err)
	}
	return nil
}

// parseOurs reads the members that the updater does not know. An unreadable one
// counts as absent.
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

// parsePlatforms reads both forms. The static one wins, but does not excuse a
// bad url or signature beside it.
func (r *Response) parsePlatforms(root *node) (err error) {
	platforms := root.last("platforms")
	if platforms == nil || platforms.isNull() {
		r.Dynamic, err = parsePlatform(root)
		return err
	}
	_, _, err = optionalURL(root)
	_, _, err2 := optionalText(root, "signature")
	if err = cmp.Or(err, err2); err != nil {
		return err
	}
	if platforms.kind != object {
		return fmt.Errorf("platforms: %w", errNoObject)
	}
	last := map[string]*node{}
	for _, m := range platforms.members {
		last[m.name] = m.value
	}
	r.Platforms = make(map[string]Platform, len(last))
	for _, key := range sortedKeys(last) {
		if r.Platforms[key], err = parsePlatform(last[key]); err != nil {
			return fmt.Errorf("platforms.%s: %w", key, err)
		}
	}
	return nil
}

var errNoObject = fmt.Errorf("%w: an object was expected", ErrShape)

func parsePlatform(n *node) (Platform, error) {
	if n.kind != object {
		return Platform{}, errNoObject
	}
	address, ok, err := optionalURL(n)
	if err == nil && !ok {
		err = fmt.Errorf("%w: url is missing", ErrShape)
	}
	if err != nil {
		return Platform{}, err
	}
	signature, err := requiredText(n, "signature")
	return Platform{Signature: signature, URL: address}, err
}

func optionalURL(n *node) (address string, ok bool, err error) {
	address, ok, err = optionalText(n, "url")
	if err != nil || !ok {
		return "", false, err
	}
	if err := checkClientURL(address); err != nil {
		return "", false, fmt.Errorf("%w: url %q is no address that the updater accepts: %w", ErrShape, address, err)
	}
	return address, true, nil
}

func requiredText(n *node, name string) (string, error) {
	text, ok, err := optionalText(n, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s is missing", ErrShape, name)
	}
	return text, err
}

// optionalText returns a member that is a string; ok is false if it is absent or
// null.
func optionalText(n *node, name string) (text string, ok bool, err error) {
	m := n.last(name)
	if m == nil || m.isNull() {
		return "", false, nil
	}
	if text, ok = m.value.(string); !ok {
		err = fmt.Errorf("%w: %s is no string", ErrShape, name)
	}
	return text, ok, err
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
