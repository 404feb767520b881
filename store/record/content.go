package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Content is everything of a tenant except its users.
type Content struct {
	Variables     []Variable   `json:"variables"`
	Diagrams      []Diagram    `json:"diagrams"`
	Menus         []Menu       `json:"menus"`
	Permissions   []Permission `json:"permissions"`
	Notifications NotifyConfig `json:"notifications"`
	Charts        []Chart      `json:"charts"`
}

// Menu is a menu item.
type Menu struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Icon   string `json:"icon"`
	Path   string `json:"path"`
	Status bool   `json:"status"`
}

// Permission grants or denies a menu item to either a user or a profile.
type Permission struct {
	ID      int64  `json:"id"`
	Menu    int64  `json:"id_menu"`
	Profile *int64 `json:"id_profile"`
	User    *int64 `json:"id_user"`
	Status  bool   `json:"status"`
}

// Granted reports whether the rows of a user and the user's profile grant a menu item.
// The user's rows override the profile's; among equals a denial wins.
func Granted(rows []Permission, menu int64) bool {
	var granted [2]*bool // by the profile, by the user
	for _, p := range rows {
		if p.Menu != menu {
			continue
		}
		g := &granted[0]
		if p.User != nil {
			g = &granted[1]
		}
		if *g == nil || !p.Status {
			*g = &p.Status
		}
	}
	decisive := cmp.Or(granted[1], granted[0])
	return decisive != nil && *decisive
}

// NotifyConfig holds entries by device kind, brand and version.
type NotifyConfig map[string]map[string]map[string][]NotifyEntry

// NotifyEntry says whether an event raises an alarm.
type NotifyEntry struct {
	ID      int64 `json:"id"`
	EventTs int64 `json:"id_event_ts"`
	Alarm   bool  `json:"alarm"`
}

// NotifyRow is one version of a NotifyConfig, which adapters store as a row.
type NotifyRow struct {
	Kind, Brand, Version string
	Entries              json.RawMessage
}

// Rows returns the versions of a configuration in order of their keys. It drops kinds and
// brands without versions.
func (c NotifyConfig) Rows() ([]NotifyRow, error) {
	var rows []NotifyRow
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		for _, brand := range slices.Sorted(maps.Keys(c[kind])) {
			versions := c[kind][brand]
			for _, version := range slices.Sorted(maps.Keys(versions)) {
				entries, err := json.Marshal(append([]NotifyEntry{}, versions[version]...))
				if err != nil {
					return nil, err
				}
				rows = append(rows, NotifyRow{kind, brand, version, entries})
			}
		}
	}
	return rows, nil
}

// NotifyConfigOf returns the configuration that has these rows.
func NotifyConfigOf(rows []NotifyRow) (NotifyConfig, error) {
	c := NotifyConfig{}
	for _, r := range rows {
		var entries []NotifyEntry
		if err := json.Unmarshal(r.Entries, &entries); err != nil {
			return nil, fmt.Errorf("notification configuration of %s, %s, %s: %w", r.Kind, r.Brand, r.Version, err)
		}
		if c[r.Kind] == nil {
			c[r.Kind] = map[string]map[string][]NotifyEntry{}
		}
		if c[r.Kind][r.Brand] == nil {
			c[r.Kind][r.Brand] = map[string][]NotifyEntry{}
		}
		c[r.Kind][r.Brand][r.Version] = entries
	}
	return c, nil
}

// Chart is a chart configuration: any JSON object that has an id.
type Chart struct {
	ID   ID
	JSON json.RawMessage // with the id
}

func (c Chart) MarshalJSON() ([]byte, error) { return c.JSON, nil }

func (c *Chart) UnmarshalJSON(data []byte) error {
	picked, _, err := split(data, "id")
	if err != nil {
		return err
	}
	*c = Chart{JSON: slices.Clone(data)}
	return unmarshal(picked, "id", &c.ID)
}

// Validate reports where and why c can't be imported. It does not check that the menus of
// permissions exist.
func (c Content) Validate() error {
	_, _, err := c.Prepare()
	return err
}

// Prepare validates c, and returns its diagrams and notification configuration in the form
// that adapters store.
func (c Content) Prepare() (savings []Saving, notifications []NotifyRow, err error) {
	for _, check := range []func() error{c.checkVariables, c.checkMenus, c.checkPermissions, c.checkCharts} {
		if err := check(); err != nil {
			return nil, nil, err
		}
	}
	if notifications, err = c.notifications(); err == nil {
		savings, err = c.savings()
	}
	return savings, notifications, err
}

// Positions returns, by key, the positions that an import gives to the elements of a list;
// for adapters. have holds the stored positions. Replaced elements share their old positions
// in the order of the list; new ones follow.
func Positions[T any](have map[string]int64, list []T, key func(T) string) map[string]int64 {
	next := int64(0)
	for _, position := range have {
		next = max(next, position)
	}
	var own []int64
	for _, element := range list {
		if position, ok := have[key(element)]; ok {
			own = append(own, position)
		}
	}
	slices.Sort(own)
	positions := make(map[string]int64, len(list))
	for _, element := range list {
		if _, ok := have[key(element)]; ok {
			positions[key(element)], own = own[0], own[1:]
		} else {
			next++
			positions[key(element)] = next
		}
	}
	return positions
}

// Key returns the ID as text.
func (v Variable) Key() string { return v.ID.Text }

// Key returns the ID as text.
func (c Chart) Key() string { return c.ID.Text }

// unique calls check with each index below n. ErrInvalid if two keys are equal.
func unique[K comparable](section string, n int, check func(i int) (K, error)) error {
	seen := make(map[K]int, n)
	for i := range n {
		key, err := check(i)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", section, i, err)
		}
		if first, ok := seen[key]; ok {
			return fmt.Errorf("%s[%d]: %w: duplicate of %s[%d], %v", section, i, ErrInvalid, section, first, key)
		}
		seen[key] = i
	}
	return nil
}

func (c Content) checkVariables() error {
	return unique("variables", len(c.Variables), func(i int) (string, error) {
		return c.Variables[i].ID.Text, c.Variables[i].validate()
	})
}

func (c Content) checkMenus() error {
	return unique("menus", len(c.Menus), func(i int) (int64, error) {
		m := c.Menus[i]
		return m.ID, cmp.Or(positive("id", m.ID), text("name", m.Name, "icon", m.Icon, "path", m.Path))
	})
}

func (c Content) checkPermissions() error {
	return unique("permissions", len(c.Permissions), func(i int) (int64, error) {
		p := c.Permissions[i]
		if (p.User == nil) == (p.Profile == nil) {
			return 0, fmt.Errorf("%w: exactly one of id_user and id_profile must be set", ErrInvalid)
		}
		holder := cmp.Or(p.User, p.Profile)
		return p.ID, cmp.Or(positive("id", p.ID), positive("id_menu", p.Menu), positive("id_user or id_profile", *holder))
	})
}

func (c Content) notifications() ([]NotifyRow, error) {
	rows, err := c.Notifications.Rows()
	for _, r := range rows {
		names := []string{"a device kind", r.Kind, "a brand", r.Brand, "a version", r.Version}
		err = cmp.Or(err, short(names...), text(names...))
	}
	if err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	return rows, nil
}

func (c Content) checkCharts() error {
	return unique("charts", len(c.Charts), func(i int) (string, error) {
		chart := c.Charts[i]
		_, _, err := split(chart.JSON)
		return chart.ID.Text, cmp.Or(err, chart.ID.validate())
	})
}

func (c Content) savings() ([]Saving, error) {
	savings := make([]Saving, len(c.Diagrams))
	owner := map[Ref]int64{}
	err := unique("diagrams", len(c.Diagrams), func(i int) (int64, error) {
		var err error
		if savings[i], err = Prepare(c.Diagrams[i], Deleted{}); err != nil {
			return 0, err
		}
		return c.Diagrams[i].ID, savings[i].own(owner)
	})
	return savings, err
}

// own records the diagram as the owner of its objects. ErrInvalid if an id is missing or
// another diagram of the import uses it.
func (s Saving) own(owner map[Ref]int64) error {
	if s.Diagram == 0 {
		return fmt.Errorf("%w: the id is missing", ErrInvalid)
	}
	for _, row := range s.Rows {
		if row.ID == 0 {
			return fmt.Errorf("%w: a %s has no id", ErrInvalid, row.Kind)
		}
		if other, ok := owner[row.Ref]; ok {
			return fmt.Errorf("%w: %s %d is also in diagram %d", ErrInvalid, row.Kind, row.ID, other)
		}
		owner[row.Ref] = s.Diagram
	}
	return nil
}
