// Package record is the contract of the store of records: the tenants of the
// monitoring side and what each of them owns, users, variables, diagrams,
// menus, permissions, notification configuration and charts; besides them the
// audit rows of them all, and the clients of updates, which belong to no tenant.
//
// Adapters live below this folder (sqlite, postgres); recordtest holds the suite
// that each of them passes. An adapter keeps these promises:
//
//   - Tenants are kept apart. A schema name that breaks the rules of
//     ValidSchema is ErrName before it comes near a statement, one that is not
//     in the list of tenants is ErrNotFound, whatever else the database holds
//     under that name. Ids are a tenant's own: the same id in another tenant is
//     another thing.
//   - SaveDiagram and Import happen as a whole or not at all, whatever crashes
//     or is cancelled, and no two of them within a tenant interleave. A reader
//     sees a diagram as one save left it, never parts of two.
//   - JSON members that this package does not know come back as they came, byte
//     for byte: numbers of any size, null as null, absent as absent. Their order
//     stays; only space around them may be lost.
//   - Text comes back as it came. What some database can't hold, a NUL or bytes
//     that are not UTF-8, is ErrInvalid when it is written and found nowhere
//     when it is looked up.
//   - Secrets are never handed in: a partner token is known by a digest that the
//     caller computes.
//   - Errors answer to errors.Is with the sentinels of this package, or with
//     context.Canceled where the caller gave up.
//   - Every wait is bounded: by the context and by time-outs of the adapter.
//   - The database's structure is brought up to date by the adapter itself, under
//     a lock, also when several processes start at once.
//
// What the API makes of records (equations, layouts, who may save) is decided
// above; so is the shape of a variable's varsTs, except that its form A is
// searchable by measurement and field.
package record

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrNotFound says that there is no such tenant, user, diagram or variable.
	ErrNotFound = errors.New("not found")
	// ErrExists says that the name is taken by something else.
	ErrExists = errors.New("already there")
	// ErrConflict says that an object belongs to another diagram. The error is
	// a *ConflictError, which names the object.
	ErrConflict = errors.New("belongs to another diagram")
	// ErrName says that a schema name breaks the rules of ValidSchema.
	ErrName = errors.New("not a schema name")
	// ErrInvalid says that a value can't be stored; the text says which and why.
	ErrInvalid = errors.New("not valid")
	// ErrUnavailable says that the database could not be reached, or did not
	// answer in time; the same call may work later.
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

// Tenants keeps the list of tenants.
type Tenants interface {
	// Tenants returns all tenants in byte order of their schema names.
	Tenants(ctx context.Context) ([]Tenant, error)

	// Tenant returns one tenant. ErrNotFound if there is none.
	Tenant(ctx context.Context, schema string) (Tenant, error)

	// CreateTenant makes a tenant and its empty tables. Where one of equal
	// members stands it does nothing; where one of other members stands, or the
	// database holds something else of that name, it is ErrExists.
	CreateTenant(ctx context.Context, t Tenant) error

	// UpdateTenant replaces everything but the schema name. ErrNotFound if there
	// is no such tenant.
	UpdateTenant(ctx context.Context, t Tenant) error
}

// Users keeps the users of each tenant. E-mail addresses are compared without
// regard to case and returned as they were given.
type Users interface {
	// Users returns all users in order of their ids.
	Users(ctx context.Context, schema string) ([]User, error)

	// User returns the user of an e-mail address, disabled or not. ErrNotFound
	// if there is none.
	User(ctx context.Context, schema, email string) (User, error)

	// UserByID returns a user, disabled or not. ErrNotFound if there is none.
	UserByID(ctx context.Context, schema string, id int64) (User, error)

	// CreateUser adds a user and returns it with its id and token version; those
	// of u are ignored. ErrExists if the address is taken.
	CreateUser(ctx context.Context, schema string, u User) (User, error)

	// DisableUser marks a user as disabled and raises the token version. On one
	// that is disabled it does nothing. ErrNotFound if there is none.
	DisableUser(ctx context.Context, schema, email string) error

	// SetUserToken replaces the digest of the partner token and raises the
	// token version. ErrNotFound if there is no such user.
	SetUserToken(ctx context.Context, schema, email string, digest []byte) error
}

// Variables reads the variables of each tenant.
type Variables interface {
	// Variables returns all variables in the order in which they were imported.
	Variables(ctx context.Context, schema string) ([]Variable, error)

	// VariablesByField returns, for each of fields, the id of the one variable
	// whose varsTs is of form A with that measurement and field. Fields that no
	// variable has, or more than one, are left out.
	VariablesByField(ctx context.Context, schema string, fields []Field) (map[Field]ID, error)
}

// Diagrams keeps the diagrams of each tenant.
type Diagrams interface {
	// Diagram returns a diagram and all its objects in order of their ids, each
	// line with the variable that it is bound to, if that is there. ErrNotFound
	// if there is no such diagram.
	Diagram(ctx context.Context, schema string, id int64) (Diagram, error)

	// SaveDiagram makes a new diagram where d.ID is 0, else replaces what the
	// diagram itself holds; ErrNotFound if it is not there. Each object of d
	// replaces the one of that kind and id or is added under it; one whose id is
	// 0 gets an id that is not in use. Objects of deleted go, those that are not
	// there are no error; all others stay. A *ConflictError says that an object
	// of d or deleted belongs to another diagram; then nothing is saved. An
	// object that is named twice is ErrInvalid. Returns the id of the diagram.
	SaveDiagram(ctx context.Context, schema string, d Diagram, deleted Deleted) (int64, error)
}

// Access reads menus and the permissions to use them.
type Access interface {
	// Menus returns all menu items in order of their ids.
	Menus(ctx context.Context, schema string) ([]Menu, error)

	// Permissions returns the rows that name this user or this profile, in order
	// of their ids. 0 stands for none.
	Permissions(ctx context.Context, schema string, user, profile int64) ([]Permission, error)
}

// Configuration reads what else a client shows.
type Configuration interface {
	// NotifyConfig returns the notification configuration, which may be empty.
	NotifyConfig(ctx context.Context, schema string) (NotifyConfig, error)

	// Charts returns all charts in the order in which they were imported.
	Charts(ctx context.Context, schema string) ([]Chart, error)
}

// Contents moves all that a tenant owns, except its users.
type Contents interface {
	// Export returns everything as it stood at one moment.
	Export(ctx context.Context, schema string) (Content, error)

	// Import stores what c names and leaves the rest alone: a variable, menu,
	// permission, chart or diagram replaces the one of its id, a diagram with
	// all its objects, a notification version the one of its kind and brand.
	// Importing the same again changes nothing. Variables and charts follow those
	// of earlier imports; what an import replaces keeps its place among the others,
	// but what it replaces together is put in the import's own order. A
	// *ConflictError says that an object belongs to a diagram that c does not name.
	Import(ctx context.Context, schema string, c Content) error
}

// Audits keeps who did what. Rows are only ever added.
type Audits interface {
	// Audit adds a row as a.Clean returns it. The row's schema need not be that
	// of a tenant: a failed login may name anything.
	Audit(ctx context.Context, a Audit) error

	// LastAudits returns the newest rows of a schema, newest first.
	LastAudits(ctx context.Context, schema string, limit int) ([]Audit, error)
}

// Store is what every adapter offers. All methods may be called concurrently.
type Store interface {
	Tenants
	Users
	Variables
	Diagrams
	Access
	Configuration
	Contents
	Audits
	Installs

	// Ping reports whether the store can answer. ErrUnavailable if not.
	Ping(ctx context.Context) error

	// Close ends the use of the store and waits for calls that are under way.
	Close() error
}
