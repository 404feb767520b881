package record

import "encoding/json"

// The functions in this file serve adapters: they read a row of a query, and name
// the columns that it has.

// Scanner is a row of a query.
type Scanner interface{ Scan(into ...any) error }

// ScanTenant reads the columns schema, ts_name and settings.
func ScanTenant(r Scanner) (t Tenant, err error) {
	var settings []byte
	if err := r.Scan(&t.Schema, &t.TsName, &settings); err != nil {
		return t, err
	}
	return t, json.Unmarshal(settings, &t.Settings)
}

// EncodeSettings checks a tenant and returns its settings as ScanTenant reads them.
func EncodeSettings(t Tenant) (string, error) {
	if err := t.Validate(); err != nil {
		return "", err
	}
	settings, err := json.Marshal(t.Settings)
	return string(settings), err
}

// UserColumns are the columns that ScanUser reads.
const UserColumns = `id, email, profile, admin, disabled, token_version, token_digest`

// ScanUser reads UserColumns.
func ScanUser(r Scanner) (u User, err error) {
	err = r.Scan(&u.ID, &u.Email, &u.Profile, &u.Admin, &u.Disabled, &u.TokenVersion, &u.TokenDigest)
	return u, err
}

// VariableColumns are the columns that ScanVariable reads.
const VariableColumns = `key, is_integer, name, unit, type, calc, equation, status, vars_ts`

// ScanVariable reads VariableColumns.
func ScanVariable(r Scanner) (v Variable, err error) {
	err = r.Scan(&v.ID.Text, &v.ID.Integer, &v.Name, &v.Unit, &v.Type, &v.Calc, &v.Equation, &v.Status, (*[]byte)(&v.VarsTs))
	return v, err
}

// ScanDiagram reads the columns id and head of a diagram without objects.
func ScanDiagram(r Scanner) (d Diagram, err error) {
	var id int64
	var head []byte
	if err := r.Scan(&id, &head); err != nil {
		return d, err
	}
	err = json.Unmarshal(head, &d)
	d.ID = id
	return d, err
}

// Placed is an object and where it stands.
type Placed struct {
	Diagram int64
	Kind    Kind
	Object
}

// ScanPlaced reads the columns diagram, kind, id and members.
func ScanPlaced(r Scanner) (p Placed, err error) {
	err = r.Scan(&p.Diagram, &p.Kind, &p.ID, (*[]byte)(&p.Members))
	return p, err
}

// ScanBound reads the columns kind, id and members of an object, and name, unit
// and varsTs of the variable that it is bound to, which are NULL without one.
func ScanBound(r Scanner) (p Placed, err error) {
	var name, unit *string
	var varsTs []byte
	err = r.Scan(&p.Kind, &p.ID, (*[]byte)(&p.Members), &name, &unit, &varsTs)
	if name != nil {
		p.Variable = &Bound{Name: *name, Unit: unit, VarsTs: varsTs}
	}
	return p, err
}

// Place adds objects to their diagrams, which are all in the list.
func Place(diagrams []Diagram, objects []Placed) {
	index := make(map[int64]int, len(diagrams))
	for i, d := range diagrams {
		index[d.ID] = i
	}
	for _, p := range objects {
		diagrams[index[p.Diagram]].Add(p.Kind, p.Object)
	}
}

// ScanMenu reads the columns id, name, icon, path and status.
func ScanMenu(r Scanner) (m Menu, err error) {
	err = r.Scan(&m.ID, &m.Name, &m.Icon, &m.Path, &m.Status)
	return m, err
}

// ScanPermission reads the columns id, menu, profile, user and status.
func ScanPermission(r Scanner) (p Permission, err error) {
	err = r.Scan(&p.ID, &p.Menu, &p.Profile, &p.User, &p.Status)
	return p, err
}

// ScanNotification reads the columns kind, brand, version and entries.
func ScanNotification(r Scanner) (n NotifyRow, err error) {
	err = r.Scan(&n.Kind, &n.Brand, &n.Version, (*[]byte)(&n.Entries))
	return n, err
}

// ScanChart reads the column chart.
func ScanChart(r Scanner) (c Chart, err error) {
	var data []byte
	if err := r.Scan(&data); err != nil {
		return c, err
	}
	return c, c.UnmarshalJSON(data)
}

// ScanAudit reads the columns at, schema, user, action, target, address, request
// and ok.
func ScanAudit(r Scanner) (a Audit, err error) {
	var at int64
	err = r.Scan(&at, &a.Schema, &a.User, &a.Action, &a.Target, &a.Address, &a.Request, &a.OK)
	a.Time = timeOf(at)
	return a, err
}
