package sqlstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"tsmon/store/record"
)

// DeleteTenant retries while others use the tenant.
func (s tenants) DeleteTenant(ctx context.Context, schema string) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	for {
		err := s.dropTenant(ctx, schema)
		if !errors.Is(err, ErrLocked) {
			return err
		}
		select {
		case <-time.After(10*time.Millisecond + rand.N(50*time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}

func (s tenants) dropTenant(ctx context.Context, schema string) error {
	var gone int64
	var b Batch
	b.Count(&gone, `DELETE FROM tsmon.tenants WHERE schema_name = $1`, schema)
	c := of(schema, "delete tenant", Write)
	err := s.run(ctx, c, func(ctx context.Context, tx Tx) error {
		if err := s.db.Drop(&b, schema); err != nil {
			return err
		}
		return tx.Send(ctx, &b, true)
	})
	s.known.Delete(schema)
	if err == nil && gone == 0 { // another process was faster
		return s.find(ctx, c)
	}
	return err
}

func (s tenants) DeleteUser(ctx context.Context, schema, email string) error {
	key := record.EmailKey(email)
	return s.delete(ctx, of(schema, "delete user", Write), `DELETE FROM {schema}.users WHERE email_key = $1`, key,
		`DELETE FROM {schema}.permissions WHERE user_id IN (SELECT id FROM {schema}.users WHERE email_key = $1)`)
}

func (s contents) DeleteDiagram(ctx context.Context, schema string, id int64) error {
	return s.delete(ctx, of(schema, "delete diagram", Write), `DELETE FROM {schema}.diagrams WHERE id = $1`, id)
}

func (s contents) DeleteVariable(ctx context.Context, schema, key string) error {
	return s.delete(ctx, of(schema, "delete variable", Write), `DELETE FROM {schema}.variables WHERE key = $1`, key)
}

func (s contents) DeleteMenu(ctx context.Context, schema string, id int64) error {
	return s.delete(ctx, of(schema, "delete menu", Write), `DELETE FROM {schema}.menus WHERE id = $1`, id)
}

// delete locks the tenant and executes statements with a key: first those of before, then
// statement. record.ErrNotFound if statement deletes nothing.
func (s *core) delete(ctx context.Context, c call, statement string, key any, before ...string) error {
	var b Batch
	var gone int64
	b.Exec(lockTenant)
	for _, other := range before {
		b.Exec(other, key)
	}
	b.Count(&gone, statement, key)
	return s.run(ctx, c, func(ctx context.Context, tx Tx) error {
		if err := tx.Send(ctx, &b, true); err != nil || gone > 0 {
			return err
		}
		return record.ErrNotFound
	})
}
