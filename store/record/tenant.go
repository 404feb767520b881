package record

import (
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Tenant is a customer with a schema of records and a time-series database.
type Tenant struct {
	Schema   string   `json:"schemaName"`
	TsName   string   `json:"ts_name"`
	Settings Settings `json:"settings"`
}

// Settings are a tenant's settings. The caller chooses defaults for zero values.
type Settings struct {
	TimeLayout  string   `json:"timeLayout,omitempty"`  // of the time text of a series point
	TimeZone    string   `json:"timeZone,omitempty"`    // IANA name
	Language    string   `json:"language,omitempty"`    // of months and days in that text
	SeriesRange Duration `json:"seriesRange,omitempty"` // of a series query that gives none
	Window      Duration `json:"window,omitempty"`      // that mean, max, min and sum cover
	SaveMenu    int64    `json:"saveMenu,omitempty"`    // menu item whose grant allows saving diagrams
	PublishMenu int64    `json:"publishMenu,omitempty"` // menu item whose grant allows publishing
	TopicPrefix string   `json:"topicPrefix,omitempty"` // that published topics lie under
	Retention   Age      `json:"retention,omitempty"`   // of values in the time-series database
}

// Duration is a time.Duration that is text, like 24h0m0s, in JSON.
type Duration time.Duration

func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Age is a time.Duration whose text is a whole number of the largest unit that fits: years of
// 365 days, weeks, days or hours, like 2y, 6w, 90d and 36h. Zero is the empty text.
type Age time.Duration

// ages are the units, longest first.
var ages = []struct {
	name byte
	time.Duration
}{{'y', 365 * 24 * time.Hour}, {'w', 7 * 24 * time.Hour}, {'d', 24 * time.Hour}, {'h', time.Hour}}

// String returns the text, as MarshalText does.
func (a Age) String() string {
	for _, unit := range ages {
		if a != 0 && time.Duration(a)%unit.Duration == 0 {
			return strconv.FormatInt(int64(time.Duration(a)/unit.Duration), 10) + string(unit.name)
		}
	}
	return ""
}

func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText accepts up to 200 years.
func (a *Age) UnmarshalText(text []byte) error {
	if len(text) == 0 || string(text) == "0" {
		*a = 0
		return nil
	}
	for _, unit := range ages {
		digits, ok := strings.CutSuffix(string(text), string(unit.name))
		n, err := strconv.ParseUint(digits, 10, 32)
		if ok && err == nil && n <= uint64(200*ages[0].Duration/unit.Duration) {
			*a = Age(time.Duration(n) * unit.Duration)
			return nil
		}
	}
	return fmt.Errorf("%w: %.20q is not a number of years, weeks, days or hours, such as 2y, 6w, 90d or 36h", ErrInvalid, text)
}

// Validate reports why a tenant can't be stored.
func (t Tenant) Validate() error {
	if err := ValidSchema(t.Schema); err != nil {
		return err
	}
	if t.TsName == "" {
		return fmt.Errorf("%w: ts_name is empty", ErrInvalid)
	}
	s := t.Settings
	return text("ts_name", t.TsName, "timeLayout", s.TimeLayout, "timeZone", s.TimeZone, "language", s.Language, "topicPrefix", s.TopicPrefix)
}

// User is a user who may log in to a tenant.
type User struct {
	ID       int64  `json:"id"`
	Email    string `json:"email"`
	Profile  int64  `json:"profile,omitempty"` // 0 for none
	Admin    bool   `json:"admin"`
	Disabled bool   `json:"disabled"`
	// TokenVersion is raised to invalidate the user's tokens.
	TokenVersion int64 `json:"tokenVersion"`
	// TokenDigest is the digest of the partner token, empty if there is none.
	TokenDigest []byte `json:"-"`
}

// HasToken reports, in constant time, whether the user has a partner token with this
// digest.
func (u User) HasToken(digest []byte) bool {
	return len(u.TokenDigest) > 0 && subtle.ConstantTimeCompare(u.TokenDigest, digest) == 1
}

const maxEmail = 320 // bytes

// Validate reports why a user can't be stored.
func (u User) Validate() error {
	switch {
	case strings.TrimSpace(u.Email) != u.Email || !strings.Contains(u.Email, "@") || len(u.Email) > maxEmail:
		return fmt.Errorf("%w: %.80q is not an e-mail address", ErrInvalid, u.Email)
	case u.Profile < 0:
		return fmt.Errorf("%w: profile %d is negative", ErrInvalid, u.Profile)
	}
	return text("email", u.Email)
}

const maxUser = 1 << 53 // exact in every JSON decoder

// ValidateUsers reports why users can't be imported. Their ids and addresses must be unique.
func ValidateUsers(users []User) error {
	err := unique("users", len(users), func(i int) (int64, error) {
		if id := users[i].ID; id < 1 || id > maxUser {
			return 0, fmt.Errorf("%w: id %d is not between 1 and %d", ErrInvalid, id, int64(maxUser))
		}
		return users[i].ID, users[i].Validate()
	})
	if err == nil {
		err = unique("users", len(users), func(i int) (string, error) { return EmailKey(users[i].Email), nil })
	}
	return err
}

// Audit is a row of the audit log.
type Audit struct {
	Time    time.Time `json:"time"`
	Schema  string    `json:"schema"`
	User    string    `json:"user"`   // e-mail address as received
	Action  string    `json:"action"` // login, save, publish
	Target  string    `json:"target"` // diagram, topic
	Address string    `json:"address"`
	Request string    `json:"request"` // id
	OK      bool      `json:"ok"`
}

const maxAudit = 1024 // bytes of each text

// Clean returns a row that can be stored: it truncates the time to microseconds in UTC, and
// shortens and repairs texts.
func (a Audit) Clean() Audit {
	a.Time = a.Time.UTC().Truncate(time.Microsecond)
	for _, s := range []*string{&a.Schema, &a.User, &a.Action, &a.Target, &a.Address, &a.Request} {
		cut := (*s)[:min(len(*s), maxAudit)]
		*s = strings.ReplaceAll(strings.ToValidUTF8(cut, "\uFFFD"), "\x00", "\uFFFD")
	}
	return a
}
