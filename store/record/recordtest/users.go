package recordtest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"tsmon/store/record"
)

func users(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	ana, err := s.CreateUser(ctx, schema, record.User{ID: 99, Email: "Ana.Núñez@Example.com", Profile: 4, Admin: true, TokenVersion: 50, TokenDigest: []byte{0, 1, 255}})
	check(t, err)
	equal(t, "the new user", ana, record.User{ID: ana.ID, Email: "Ana.Núñez@Example.com", Profile: 4, Admin: true, TokenVersion: ana.TokenVersion, TokenDigest: []byte{0, 1, 255}})
	bob, err := s.CreateUser(ctx, schema, record.User{Email: "bob'; --@example.com"})
	check(t, err)
	if ana.ID < 1 || bob.ID <= ana.ID || ana.TokenVersion == 50 {
		t.Fatalf("ids %d and %d, token version %d", ana.ID, bob.ID, ana.TokenVersion)
	}
	list, err := s.Users(ctx, schema)
	check(t, err)
	equal(t, "users", list, []record.User{ana, bob})

	got, err := s.User(ctx, schema, "ANA.NÚÑEZ@example.COM")
	check(t, err)
	equal(t, "user by e-mail", got, ana)
	got, err = s.UserByID(ctx, schema, bob.ID)
	check(t, err)
	equal(t, "user by id", got, bob)

	_, err = s.CreateUser(ctx, schema, record.User{Email: "ana.núñez@example.com"})
	demand(t, err, record.ErrExists, "create a user again")
	if !strings.Contains(err.Error(), "@") {
		t.Errorf("the error names no address: %v", err)
	}
	_, err = s.UserByID(ctx, schema, bob.ID+1)
	demand(t, err, record.ErrNotFound, "user by an id that is not there")
}

func userTokens(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	created, err := s.CreateUser(ctx, schema, record.User{Email: "a@b"})
	check(t, err)
	if created.HasToken(nil) || created.HasToken([]byte{}) {
		t.Fatal("a user without a token has one")
	}
	digest := bytes.Repeat([]byte{0, 0xff}, 16)
	check(t, s.SetUserToken(ctx, schema, "A@b", digest))
	set, err := s.User(ctx, schema, "a@b")
	check(t, err)
	if !set.HasToken(digest) || set.HasToken(digest[1:]) || set.HasToken(nil) || set.TokenVersion <= created.TokenVersion {
		t.Fatalf("after SetUserToken the user is %+v", set)
	}
	check(t, s.DisableUser(ctx, schema, "a@B"))
	check(t, s.DisableUser(ctx, schema, "a@b"))
	disabled, err := s.UserByID(ctx, schema, set.ID)
	check(t, err)
	if !disabled.Disabled || disabled.TokenVersion != set.TokenVersion+1 {
		t.Fatalf("after DisableUser the user is %+v", disabled)
	}
	demand(t, s.SetUserToken(ctx, schema, "nobody@b", digest), record.ErrNotFound, "SetUserToken")
	demand(t, s.DisableUser(ctx, schema, "nobody@b"), record.ErrNotFound, "DisableUser")
}

func hostileEmails(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	_, err := s.CreateUser(ctx, schema, record.User{Email: "a@b"})
	check(t, err)
	for _, email := range []string{"", "a", "a@b\x00", "\xff@b", "' OR 1=1 --@", "%@%", "_@_", "a@b ", strings.Repeat("a", 100_000) + "@b"} {
		_, err := s.User(ctx, schema, email)
		demand(t, err, record.ErrNotFound, "user")
		demand(t, s.DisableUser(ctx, schema, email), record.ErrNotFound, "disable")
		demand(t, s.SetUserToken(ctx, schema, email, []byte("x")), record.ErrNotFound, "token")
	}
	for _, email := range []string{"", "a", "c@b\x00", "\xff@b", " c@b", strings.Repeat("a", 400) + "@b"} {
		_, err := s.CreateUser(ctx, schema, record.User{Email: email})
		demand(t, err, record.ErrInvalid, "create")
	}
	list, err := s.Users(ctx, schema)
	check(t, err)
	equal(t, "number of users", len(list), 1)
}

func createUserRace(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	won := 0
	for _, err := range race(8, func(int) error {
		_, err := s.CreateUser(t.Context(), schema, record.User{Email: "a@b"})
		return err
	}) {
		if err == nil {
			won++
		} else if !errors.Is(err, record.ErrExists) {
			t.Fatal(err)
		}
	}
	equal(t, "creators that won", won, 1)
}
