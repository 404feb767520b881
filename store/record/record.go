// Package record defines the store of records: the tenants of the monitoring side
// with their users, variables, diagrams, menus, permissions, notification
// configuration and charts, the audit log, and the clients of updates, which belong
// to no tenant.
//
// The adapters sqlite and postgres pass the suite in recordtest. They guarantee:
//
//   - Tenants are isolated. A schema name that fails ValidSchema is ErrName and never
//     part of a statement; one that is not a tenant's is ErrNotFound, whatever else
//     the database holds under that name. Ids are unique within a tenant only.
//   - SaveDiagram and Import are atomic, and serialized within a tenant. A reader sees
//     a diagram as one save left it.
//   - JSON members that this package does not know are returned byte for byte and in
//     order; only the space around them may be lost.
//   - Text is returned unchanged. A NUL or bytes that are not UTF-8 are ErrInvalid in
//     a write, and match nothing in a lookup.
//   - Secrets are not stored: a partner token is known by the caller's digest of it.
//   - Errors match the sentinels of this package, or context.Canceled.
//   - Waits are bounded by the context and the adapter's timeouts.
//   - The adapter migrates the database itself, under a lock, even if several
//     processes start at once.
//
// The shape of a variable's varsTs is up to the caller, except that its form A can be
// looked up by measurement and field.
package record

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound says that there is no such tenant, user, diagram or variable.
	ErrNotFound = errors.New("not found")
	// ErrExists says that the name is taken by something else.
	ErrExists = errors.New("already there")
	// ErrConflict says that an object belongs to another diagram. The error is
	// a *ConflictError, which names the object.
	ErrConflict = errors.New("belongs to another diagram")
	// ErrStale says that a diagram was saved since it was read. The error is a
	// *StaleError, which says by whom.
	ErrStale = errors.New("saved by somebody else since it was read")
	// ErrName says that a schema name breaks the rules of ValidSchema.
	ErrName = errors.New("not a schema name")
	// ErrInvalid says that a value can't be stored; the text says which and why.
	ErrInvalid = errors.New("not valid")
	// ErrUnavailable says that the database can't be reached or did not answer in
	// time.
	ErrUnavailable = errors.New("the database does not answer")
)

// ConflictError names an object that belongs to another diagram than the one
// that is saved. It wraps ErrConflict.
type ConflictError struct {
	Object Ref
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s %d %v", e.Object.Kind, e.Object.ID, ErrConflict)
}

func (e *ConflictError) Unwrap() error { return ErrConflict }

// StaleError holds the current state of a diagram, which is not the one that a save meant to
// replace. It wraps ErrStale.
type StaleError struct {
	Present DiagramState
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("diagram %d was %v: version %d is of %s", e.Present.Diagram, ErrStale, e.Present.Version, e.Present.SavedBy)
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

// Users keeps the users of each tenant. E-mail addresses are compared regardless of
// case.
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

	// ImportUsers adds users with their ids and digests, or replaces those of the same id
	// and address, all of them or none. New ones get a token version of their own; that
	// of a user whose digest changes or who is disabled rises. ErrExists if an id or an
	// address is another user's, ErrInvalid if two of the list share one.
	ImportUsers(ctx context.Context, schema string, users []User) error

	// DisableUser disables a user and raises the token version, unless the user is
	// disabled. ErrNotFound if there is none.
	DisableUser(ctx context.Context, schema, email string) error

	// SetUserToken replaces the digest of the partner token and raises the
	// token version. ErrNotFound if there is no such user.
	SetUserToken(ctx context.Context, schema, email string, digest []byte) error
}

// Variables reads the variables of each tenant.
type Variables interface {
	// Variables returns all variables in the order in which they were imported.
	Variables(ctx context.Context, schema string) ([]Variable, error)

	// VariablesByField returns the ids of the variables whose varsTs is of form A
	// with one of these fields. A field is omitted unless exactly one variable has it.
	VariablesByField(ctx context.Context, schema string, fields []Field) (map[Field]ID, error)
}

// Diagrams keeps the diagrams of each tenant.
type Diagrams interface {
	// Diagram returns a diagram with its objects in order of their ids, each line
	// with the variable that it is bound to, if that exists. ErrNotFound if there is
	// no such diagram.
	Diagram(ctx context.Context, schema string, id int64) (Diagram, error)

	// SaveDiagram creates a diagram if d.ID is 0; otherwise it replaces the members of one,
	// and returns ErrNotFound if that does not exist. It adds or replaces the objects of d,
	// where an id of 0 means a new one, removes those of deleted that exist, and keeps all
	// others. A *ConflictError says that an object belongs to another diagram, ErrInvalid
	// that an object is named twice.
	//
	// A *StaleError says that d.Version is set and is not the current version. d.SavedBy and
	// d.SavedAt are kept with the state, unless the save changes nothing. SaveDiagram returns
	// the current state.
	SaveDiagram(ctx context.Context, schema string, d Diagram, deleted Deleted) (DiagramState, error)

	// DiagramStates returns the states of a tenant's diagrams that are kept: the present
	// one of each and those of up to KeptStates - 1 saves before it, in order of the
	// diagrams' ids, the newest first.
	DiagramStates(ctx context.Context, schema string) ([]DiagramState, error)

	// DiagramState returns a diagram as it was in a version, its lines without their
	// variables. ErrNotFound if that is not kept.
	DiagramState(ctx context.Context, schema string, id, version int64) (Diagram, error)
}

// KeptStates is how many states of a diagram are kept.
const KeptStates = 20

// Access reads menus and the permissions to use them.
type Access interface {
	// Menus returns all menu items in order of their ids.
	Menus(ctx context.Context, schema string) ([]Menu, error)

	// Permissions returns the rows of a user or a profile, of which 0 is none, in
	// order of their ids.
	Permissions(ctx context.Context, schema string, user, profile int64) ([]Permission, error)
}

// Configuration reads the other settings of a client.
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

	// Import adds or replaces the elements of c, diagrams with all their objects,
	// and keeps all others. Importing the same again changes nothing. The replaced state
	// of a diagram is kept, as in a save. New variables
	// and charts follow those of earlier imports; replaced ones share out their old
	// positions in the order of c. A *ConflictError says that an object belongs to a
	// diagram that is not in c.
	Import(ctx context.Context, schema string, c Content) error
}

// Deletes deletes what a tenant has, each atomically. ErrNotFound if it is not there. No id
// of a deleted user or object is given again.
type Deletes interface {
	// DeleteTenant deletes a tenant with everything that it owns. Its audit rows stay, and
	// so does its time-series database, of which this store holds but the name. Other calls
	// for the tenant end before it or find nothing.
	DeleteTenant(ctx context.Context, schema string) error

	// DeleteUser deletes a user and the permissions that name the user.
	DeleteUser(ctx context.Context, schema, email string) error

	// DeleteDiagram deletes a diagram with its objects and all states of it.
	DeleteDiagram(ctx context.Context, schema string, id int64) error

	// DeleteVariable deletes the variable with a key. Lines stay bound to it, and get it
	// back with the next import of a variable with that key.
	DeleteVariable(ctx context.Context, schema, key string) error

	// DeleteMenu deletes a menu item and its permissions.
	DeleteMenu(ctx context.Context, schema string, id int64) error
}

// Audits is the audit log.
type Audits interface {
	// Audit adds a row as a.Clean returns it. Its schema need not be a tenant's: a
	// failed login may name anything.
	Audit(ctx context.Context, a Audit) error

	// LastAudits returns the newest rows of a schema, newest first.
	LastAudits(ctx context.Context, schema string, limit int) ([]Audit, error)

	// ForgetAudits deletes some rows from before a time, the oldest first, and returns how
	// many: 0 once none are left.
	ForgetAudits(ctx context.Context, before time.Time) (int64, error)
}

// Writes counts the writes of commands to databases of time series, so that servers know
// which ones to read again.
type Writes interface {
	// Wrote counts a write to a database. ErrInvalid if no tenant could name it.
	Wrote(ctx context.Context, tsName string) error

	// Writes returns how many writes were counted of each database.
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

	// TryWrite writes about 64 KiB of no meaning. ErrUnavailable if that fails because the
	// disk is full or the store is read-only.
	TryWrite(ctx context.Context) error

	// Close closes the store after the calls that are running.
	Close() error
}
