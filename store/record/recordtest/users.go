package recordtest

import (
	"bytes"
	"errors"
	"math"
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

// importUsers carries users from a tenant to another one, and refuses those in whose place
// others are.
func importUsers(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	makeTenant(t, s, "other")
	digest := bytes.Repeat([]byte{0, 0xff}, 16)
	users := []record.User{
		{ID: 3, Email: "Ana@b", Profile: 7, Admin: true, TokenDigest: digest},
		{ID: 5, Email: "ñ@b", Disabled: true},
	}
	check(t, s.ImportUsers(ctx, schema, nil))
	check(t, s.ImportUsers(ctx, schema, users))
	first, err := s.Users(ctx, schema)
	check(t, err)
	equal(t, "number of users", len(first), 2)
	for i, u := range first {
		if u.TokenVersion < 1 {
			t.Errorf("the token version of %s is %d", u.Email, u.TokenVersion)
		}
		users[i].TokenVersion = u.TokenVersion
	}
	equal(t, "users", first, users)
	check(t, s.ImportUsers(ctx, schema, users))
	again, err := s.Users(ctx, schema)
	check(t, err)
	equal(t, "users after the same import", again, first)
	next, err := s.CreateUser(ctx, schema, record.User{Email: "next@b"})
	check(t, err)
	equal(t, "the next user", next.ID, int64(6))

	before, err := s.Users(ctx, schema)
	check(t, err)
	for name, c := range map[string]struct {
		users []record.User
		want  error
	}{
		"another's address":  {[]record.User{{ID: 9, Email: "new@b"}, {ID: 8, Email: "aNA@b"}}, record.ErrExists},
		"another's id":       {[]record.User{{ID: 9, Email: "new@b"}, {ID: 3, Email: "bea@b"}}, record.ErrExists},
		"an id twice":        {[]record.User{{ID: 9, Email: "new@b"}, {ID: 9, Email: "bea@b"}}, record.ErrInvalid},
		"an address twice":   {[]record.User{{ID: 9, Email: "new@b"}, {ID: 10, Email: "New@b"}}, record.ErrInvalid},
		"no id":              {[]record.User{{Email: "new@b"}}, record.ErrInvalid},
		"the last id":        {[]record.User{{ID: math.MaxInt64, Email: "new@b"}}, record.ErrInvalid},
		"no address":         {[]record.User{{ID: 9, Email: "new"}}, record.ErrInvalid},
		"a hostile address":  {[]record.User{{ID: 9, Email: "a@b\x00"}}, record.ErrInvalid},
		"a negative profile": {[]record.User{{ID: 9, Email: "new@b", Profile: -1}}, record.ErrInvalid},
	} {
		demand(t, s.ImportUsers(ctx, schema, c.users), c.want, name)
	}
	after, err := s.Users(ctx, schema)
	check(t, err)
	equal(t, "users after what was refused", after, before)
	others, err := s.Users(ctx, "other")
	check(t, err)
	equal(t, "users of the other tenant", len(others), 0)

	users[0].TokenDigest, users[1].Disabled = nil, false
	check(t, s.ImportUsers(ctx, schema, users))
	changed, err := s.Users(ctx, schema)
	check(t, err)
	equal(t, "a version after the digest changed", changed[0].TokenVersion, first[0].TokenVersion+1)
	equal(t, "a version after the user was let in", changed[1].TokenVersion, first[1].TokenVersion)
	users[1].Disabled = true
	check(t, s.ImportUsers(ctx, schema, users))
	out, err := s.UserByID(ctx, schema, 5)
	check(t, err)
	equal(t, "a version after the user was disabled", out.TokenVersion, first[1].TokenVersion+1)
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
