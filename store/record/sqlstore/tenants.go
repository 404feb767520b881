package sqlstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tsmon/store/record"
)

const (
	selectTenants = `SELECT schema_name, ts_name, settings FROM tsmon.tenants`
	selectTenant  = selectTenants + ` WHERE schema_name = $1`
)

func scanTenant(r Scanner) (t record.Tenant, err error) {
	var settings []byte
	if err := r.Scan(&t.Schema, &t.TsName, &settings); err != nil {
		return t, err
	}
	return t, json.Unmarshal(settings, &t.Settings)
}

func (s tenants) Tenants(ctx context.Context) ([]record.Tenant, error) {
	return list(ctx, s.core, central("list tenants", Read), scanTenant, selectTenants+` ORDER BY schema_name`)
}

func (s tenants) Tenant(ctx context.Context, schema string) (record.Tenant, error) {
	return one(ctx, s.core, of(schema, "read tenant", Read), scanTenant, selectTenant, schema)
}

// CreateTenant creates the schema first. After a crash the next call completes the tenant.
func (s tenants) CreateTenant(ctx context.Context, t record.Tenant) error {
	settings, err := encodeSettings(t)
	if err != nil {
		return fmt.Errorf("create tenant: %w", err)
	}
	what := "create tenant " + t.Schema
	if err := s.db.CreateSchema(ctx, t.Schema); err != nil {
		return fmt.Errorf("%s: %w", what, Translate(ctx, s.db, err))
	}
	var b Batch
	var found []record.Tenant
	b.Exec(`INSERT INTO tsmon.tenants (schema_name, ts_name, settings) VALUES ($1, $2, $3) ON CONFLICT (schema_name) DO NOTHING`,
		t.Schema, t.TsName, settings)
	b.Query(collect(&found, scanTenant), selectTenant, t.Schema)
	if err := s.send(ctx, central(what, Write), &b); err != nil {
		return err
	}
	if len(found) != 1 || found[0] != t {
		return fmt.Errorf("%s: %w with a different ts_name or settings", what, record.ErrExists)
	}
	return nil
}

// encodeSettings validates a tenant and returns its settings as JSON.
func encodeSettings(t record.Tenant) (string, error) {
	if err := t.Validate(); err != nil {
		return "", err
	}
	settings, err := json.Marshal(t.Settings)
	return string(settings), err
}

func (s tenants) UpdateTenant(ctx context.Context, t record.Tenant) error {
	settings, err := encodeSettings(t)
	if err != nil {
		return fmt.Errorf("update tenant: %w", err)
	}
	_, err = s.exec(ctx, of(t.Schema, "update tenant", Write),
		`UPDATE tsmon.tenants SET ts_name = $1, settings = $2 WHERE schema_name = $3`, t.TsName, settings, t.Schema)
	return err
}

func (s tenants) Audit(ctx context.Context, a record.Audit) error {
	a = a.Clean()
	_, err := s.exec(ctx, central("write to the audit log", Write),
		`INSERT INTO tsmon.audits (at, schema_name, user_email, action, target, address, request, ok)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, a.Time.UnixMicro(), a.Schema, a.User, a.Action, a.Target, a.Address, a.Request, a.OK)
	return err
}

func (s tenants) LastAudits(ctx context.Context, schema string, limit int) ([]record.Audit, error) {
	return list(ctx, s.core, central("read the audit log", Read), scan(func(a *record.Audit) []any {
		return []any{micros(&a.Time), &a.Schema, &a.User, &a.Action, &a.Target, &a.Address, &a.Request, &a.OK}
	}), `SELECT at, schema_name, user_email, action, target, address, request, ok
		FROM tsmon.audits WHERE schema_name = $1 ORDER BY id DESC LIMIT $2`, schema, max(limit, 0))
}

// ForgetAudits scans only the oldest rows, since rows are written in the order of their times.
func (s tenants) ForgetAudits(ctx context.Context, before time.Time) (int64, error) {
	return s.exec(ctx, central("delete old audit rows", Write),
		`DELETE FROM tsmon.audits WHERE at < $1 AND id IN (SELECT id FROM tsmon.audits ORDER BY id LIMIT $2)`, before.UnixMicro(), Piece)
}

const (
	userColumns = `id, email, profile, admin, disabled, token_version, token_digest`
	selectUsers = `SELECT ` + userColumns + ` FROM {schema}.users`
)

var scanUser = scan(func(u *record.User) []any {
	return []any{&u.ID, &u.Email, &u.Profile, &u.Admin, &u.Disabled, &u.TokenVersion, &u.TokenDigest}
})

func (s tenants) Users(ctx context.Context, schema string) ([]record.User, error) {
	return list(ctx, s.core, of(schema, "list users", Read), scanUser, selectUsers+` ORDER BY id`)
}

func (s tenants) User(ctx context.Context, schema, email string) (record.User, error) {
	return one(ctx, s.core, of(schema, "read user", Read), scanUser, selectUsers+` WHERE email_key = $1`, record.EmailKey(email))
}

func (s tenants) UserByID(ctx context.Context, schema string, id int64) (record.User, error) {
	return one(ctx, s.core, of(schema, "read user", Read), scanUser, selectUsers+` WHERE id = $1`, id)
}

func (s tenants) CreateUser(ctx context.Context, schema string, u record.User) (record.User, error) {
	if err := u.Validate(); err != nil {
		return record.User{}, fmt.Errorf("create user: %w", err)
	}
	var created []record.User
	var b Batch
	b.Exec(`UPDATE {schema}.counters SET next_user = next_user + 1`)
	b.Query(collect(&created, scanUser), `
		INSERT INTO {schema}.users (id, email, email_key, profile, admin, disabled, token_version, token_digest)
		VALUES ((SELECT next_user - 1 FROM {schema}.counters), $1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (email_key) DO NOTHING RETURNING `+userColumns,
		u.Email, record.EmailKey(u.Email), u.Profile, u.Admin, u.Disabled, newTokenVersion(), u.TokenDigest)
	err := s.send(ctx, of(schema, "create user", Write), &b)
	switch {
	case err != nil:
		return record.User{}, err
	case len(created) == 0:
		return record.User{}, fmt.Errorf("create user of %s: %s %w", schema, u.Email, record.ErrExists)
	}
	return created[0], nil
}

func (s *Store) ImportUsers(ctx context.Context, schema string, users []record.User) error {
	if err := record.ValidateUsers(users); err != nil {
		return fmt.Errorf("import users: %w", err)
	}
	return s.run(ctx, of(schema, "import users", Write), func(ctx context.Context, tx Tx) error {
		var have []record.User
		var look, b Batch
		next := int64(1)
		for _, u := range users {
			next = max(next, u.ID+1)
		}
		look.Exec(`UPDATE {schema}.counters SET next_user = greatest(next_user, $1)`, next)
		look.Query(collect(&have, scanUser), selectUsers)
		if err := tx.Send(ctx, &look, false); err != nil {
			return err
		}
		merged, err := mergeUsers(have, users)
		if err != nil {
			return err
		}
		b.upsert("{schema}.users", "id",
			"id bigint, email text, email_key text, profile bigint, admin boolean, disabled boolean, token_version bigint, token_digest bytea",
			rowsOf(merged, func(u record.User) []any {
				return []any{u.ID, u.Email, record.EmailKey(u.Email), u.Profile, u.Admin, u.Disabled, u.TokenVersion, u.TokenDigest}
			}))
		return tx.Send(ctx, &b, true)
	})
}

// mergeUsers returns users with the token versions to store, given the stored users.
func mergeUsers(have, users []record.User) ([]record.User, error) {
	byID, byKey := map[int64]record.User{}, map[string]int64{}
	for _, u := range have {
		byID[u.ID], byKey[record.EmailKey(u.Email)] = u, u.ID
	}
	merged := slices.Clone(users)
	for i, u := range users {
		key := record.EmailKey(u.Email)
		old, replaces := byID[u.ID]
		switch owner, taken := byKey[key]; {
		case taken && owner != u.ID:
			return nil, fmt.Errorf("users[%d]: user %d with the address %s %w", i, owner, u.Email, record.ErrExists)
		case replaces && record.EmailKey(old.Email) != key:
			return nil, fmt.Errorf("users[%d]: user %d with the address %s %w", i, u.ID, old.Email, record.ErrExists)
		case !replaces:
			merged[i].TokenVersion = newTokenVersion()
		default:
			merged[i].TokenVersion = old.TokenVersion
			if !bytes.Equal(old.TokenDigest, u.TokenDigest) || u.Disabled && !old.Disabled {
				merged[i].TokenVersion++
			}
		}
	}
	return merged, nil
}

// newTokenVersion returns a random token version, so that the tokens of a deleted tenant are
// not valid for a new one of the same name. As a JSON number it is exact everywhere.
func newTokenVersion() int64 { return 1 + rand.Int64N(1<<48) }

func (s tenants) DisableUser(ctx context.Context, schema, email string) error {
	_, err := one(ctx, s.core, of(schema, "disable user", Write), scanID, `
		UPDATE {schema}.users SET token_version = token_version + CASE WHEN disabled THEN 0 ELSE 1 END, disabled = true
		WHERE email_key = $1 RETURNING id`, record.EmailKey(email))
	return err
}

func (s tenants) SetUserToken(ctx context.Context, schema, email string, digest []byte) error {
	_, err := one(ctx, s.core, of(schema, "set token of user", Write), scanID, `
		UPDATE {schema}.users SET token_version = token_version + 1, token_digest = $1
		WHERE email_key = $2 RETURNING id`, digest, record.EmailKey(email))
	return err
}
