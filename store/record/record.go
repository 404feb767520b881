// Package record defines the store of records: the tenants of the monitoring side
// with their users, variables, diagrams, menus, permissions, notification
// configuration and charts, the audit log, and the clients of updates, which belong
// to no tenant.
//
// The adapters sqlite and postgres pass the suite in recordtest. They guarantee:
//
//   - Tenants are isolated. A schema name that fails ValidSchema is ErrName and never
//     becomes part of a statement. One that belongs to no tenant is ErrNotFound, even if
//     the database has a schema of that name. Ids are unique within a tenant only.
//   - SaveDiagram and Import are atomic, and serialized within a tenant. A reader never
//     sees a diagram half saved.
//   - JSON members that this package does not know are returned byte for byte and in
//     order; only whitespace around them may be lost.
//   - Text is returned unchanged. A NUL or invalid UTF-8 is ErrInvalid in a write, and
//     matches nothing in a lookup.
//   - Partner tokens are not stored, only the digests that the caller makes of them.
//   - Errors match the sentinels of this package, or context.Canceled.
//   - Waits are bounded by the context and the adapter's timeouts.
//   - The adapter migrates the database itself, under a lock; several processes may
//     start at once.
//
// The caller chooses the shape of a variable's varsTs. Only form A can be looked up by
// measurement and field.
package record

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound says that the tenant, user, diagram or other record does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists says that the name is taken.
	ErrExists = errors.New("already exists")
	// ErrConflict says that an object belongs to another diagram. The error is
	// a *ConflictError, which names the object.
	ErrConflict = errors.New("belongs to another diagram")
	// ErrStale says that a diagram was saved after the caller read it. The error is a
	// *StaleError, which says by whom.
	ErrStale = errors.New("saved by somebody else since it was read")
	// ErrName says that a schema name breaks the rules of ValidSchema.
	ErrName = errors.New("invalid schema name")
	// ErrInvalid says that a value can't be stored; the text says which and why.
	ErrInvalid = errors.New("not valid")
	// ErrUnavailable says that the database can't be reached or did not answer in
	// time.
	ErrUnavailable = errors.New("the database does not answer")
)

// ConflictError names an object that belongs to a diagram other than the one being
// saved. It wraps ErrConflict.
type ConflictError struct {
	Object Ref
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s %d %v", e.Object.Kind, e.Object.ID, ErrConflict)
}

func (e *ConflictError) Unwrap() error { return ErrConflict }

// StaleError holds the current state of a diagram that changed before a save. It wraps
// ErrStale.
type StaleError struct {
	Present DiagramState
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("diagram %d was %v: version %d, by %s", e.Present.Diagram, ErrStale, e.Present.Version, e.Present.SavedBy)
}

func (e *StaleError) Unwrap() error { return ErrStale }

// Tenants keeps the list of tenants.
type Tenants interface {
	// Tenants returns all tenants in byte order of their schema names.
	Tenants(ctx context.Context) ([]Tenant, error)

	// Tenant returns one tenant. ErrNotFound if there is none.
	Tenant(ctx context.Context, schema string) (Tenant, error)

	// CreateTenant creates a tenant and its empty tables, and does nothing if an
	// equal tenant exists. ErrExists if a different one exists, or the database
	// holds something else of that name.
	CreateTenant(ctx context.Context, t Tenant) error

	// UpdateTenant replaces everything but the schema name.
	UpdateTenant(ctx context.Context, t Tenant) error
}

// Users keeps the users of each tenant. E-mail addresses are case-insensitive.
type Users interface {
	// Users returns all users in order of their ids.
	Users(ctx context.Context, schema string) ([]User, error)

	// User returns a user, disabled or not. ErrNotFound if there is none.
	User(ctx context.Context, schema, email string) (User, error)

	// UserByID returns a user, disabled or not. ErrNotFound if there is none.
	UserByID(ctx context.Context, schema string, id int64) (User, error)

	// CreateUser adds a user and returns it with a new id and token version.
	// ErrExists if the address is taken.
	CreateUser(ctx context.Context, schema string, u User) (User, error)

	// ImportUsers adds users with their ids and digests, or replaces those with the same id
	// and address: all of them or none. New users get a new token version. It is raised
	// for a user whose digest changes or who is disabled. ErrExists if an id or an address
	// belongs to another user, ErrInvalid if the list repeats one.
	ImportUsers(ctx context.Context, schema string, users []User) error

	// DisableUser disables a user and raises the token version, unless the user is
	// disabled already. ErrNotFound if there is none.
	DisableUser(ctx context.Context, schema, email string) error

	// SetUserToken replaces the digest of the partner token and raises the
	// token version. ErrNotFound if there is no such user.
	SetUserToken(ctx context.Context, schema, email string, digest []byte) error
}

// Variables reads the variables of each tenant.
type Variables interface {
	// Variables returns all variables in the order in which they were imported.
	Variables(ctx context.Context, schema string) ([]Variable, error)

	// VariablesByField returns the ids of the variables whose varsTs, of form A, names one
	// of these fields. It omits a field unless exactly one variable has it.
	VariablesByField(ctx context.Context, schema string, fields []Field) (map[Field]ID, error)
}

// Diagrams keeps the diagrams of each tenant.
type Diagrams interface {
	// Diagram returns a diagram with its objects in order of their ids. A line includes
	// the variable that it is bound to, if that exists. ErrNotFound if there is no such
	// diagram.
	Diagram(ctx context.Context, schema string, id int64) (Diagram, error)

	// SaveDiagram creates a diagram if d.ID is 0. Otherwise it replaces the members of an
	// existing one; ErrNotFound if there is none. It adds or replaces the objects of d,
	// where an id of 0 means a new one, removes those in deleted that exist, and keeps all
	// others. It returns a *ConflictError if an object belongs to another diagram, and
	// ErrInvalid if an object is named twice.
	//
	// It returns a *StaleError if d.Version is set and is not the current version. d.SavedBy
	// and d.SavedAt are stored unless the save changes nothing. SaveDiagram returns the
	// current state.
	SaveDiagram(ctx context.Context, schema string, d Diagram, deleted Deleted) (DiagramState, error)

	// DiagramStates returns the stored states of all diagrams in order of the diagrams'
	// ids, the newest first: the current state and up to KeptStates - 1 earlier ones.
	DiagramStates(ctx context.Context, schema string) ([]DiagramState, error)

	// DiagramState returns an old or the current version of a diagram. Its lines don't
	// include their variables. ErrNotFound if the version is not stored.
	DiagramState(ctx context.Context, schema string, id, version int64) (Diagram, error)
}

// KeptStates is how many states of each diagram are stored.
const KeptStates = 20

// Access reads menus and the permissions to use them.
type Access interface {
	// Menus returns all menu items in order of their ids.
	Menus(ctx context.Context, schema string) ([]Menu, error)

	// Permissions returns the rows of a user and of a profile, in order of their ids.
	// Either may be 0 for none.
	Permissions(ctx context.Context, schema string, user, profile int64) ([]Permission, error)
}

// Configuration reads the other settings of a tenant.
type Configuration interface {
	// NotifyConfig returns the notification configuration, which may be empty.
	NotifyConfig(ctx context.Context, schema string) (NotifyConfig, error)

	// Charts returns all charts in the order in which they were imported.
	Charts(ctx context.Context, schema string) ([]Chart, error)
}

// Contents exports and imports everything of a tenant except its users.
type Contents interface {
	// Export returns a consistent snapshot.
	Export(ctx context.Context, schema string) (Content, error)

	// Import adds or replaces the elements of c, diagrams with all their objects, and
	// keeps all others. A repeated import changes nothing. The replaced state of a diagram
	// is stored, as in a save. New variables and charts follow those of earlier imports;
	// replaced ones share their old positions in the order of c. It returns a
	// *ConflictError if an object belongs to a diagram that is not in c.
	Import(ctx context.Context, schema string, c Content) error
}

// Deletes deletes tenants and their records. Each call is atomic, and returns ErrNotFound if
// there is nothing to delete. Ids of deleted users and objects are not reused.
type Deletes interface {
	// DeleteTenant deletes a tenant and its records. Its audit rows stay, and so does its
	// time-series database. Concurrent calls for the tenant finish first or return
	// ErrNotFound.
	DeleteTenant(ctx context.Context, schema string) error

	// DeleteUser deletes a user and the permissions that name the user.
	DeleteUser(ctx context.Context, schema, email string) error

	// DeleteDiagram deletes a diagram with its objects and states.
	DeleteDiagram(ctx context.Context, schema string, id int64) error

	// DeleteVariable deletes the variable with a key. Lines stay bound to the key, so a
	// later import of a variable with that key restores them.
	DeleteVariable(ctx context.Context, schema, key string) error

	// DeleteMenu deletes a menu item and its permissions.
	DeleteMenu(ctx context.Context, schema string, id int64) error
}

// Audits is the audit log.
type Audits interface {
	// Audit adds the row that a.Clean returns. The schema need not be a tenant's, since a
	// failed login may name anything.
	Audit(ctx context.Context, a Audit) error

	// LastAudits returns the newest rows of a schema, newest first.
	LastAudits(ctx context.Context, schema string, limit int) ([]Audit, error)

	// ForgetAudits deletes some rows older than before, the oldest first, and returns how
	// many: 0 once none are left.
	ForgetAudits(ctx context.Context, before time.Time) (int64, error)
}

// Writes counts the writes of commands to time-series databases, so that servers know which
// ones to read again.
type Writes interface {
	// Wrote counts a write to a database. ErrInvalid if tsName is not a valid ts_name.
	Wrote(ctx context.Context, tsName string) error

	// Writes returns the number of writes to each database.
	Writes(ctx context.Context) (map[string]int64, error)
}

// Store is a store of records. All methods may be called concurrently.
type Store interface {
	Tenants
	Users
	Variables
	Diagrams
	Access
	Configuration
	Contents
	Deletes
	Audits
	Writes
	Secrets
	Installs
	Samples
	Outbox
	Outcomes
	Histories

	// Ping returns ErrUnavailable if the store does not answer.
	Ping(ctx context.Context) error

	// TryWrite writes about 64 KiB of test data. ErrUnavailable if the disk is full or the
	// store is read-only.
	TryWrite(ctx context.Context) error

	// Close waits for running calls and closes the store.
	Close() error
}
