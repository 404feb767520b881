package recordtest

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"tsmon/store/record"
)

func users(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	ana := must(s.CreateUser(ctx, schema, record.User{ID: 99, Email: "Ana.Núñez@Example.com", Profile: 4, Admin: true, TokenVersion: 50, TokenDigest: []byte{0, 1, 255}}))(t)
	equal(t, "the new user", ana, record.User{ID: ana.ID, Email: "Ana.Núñez@Example.com", Profile: 4, Admin: true, TokenVersion: ana.TokenVersion, TokenDigest: []byte{0, 1, 255}})
	bob := must(s.CreateUser(ctx, schema, record.User{Email: "bob'; --@example.com"}))(t)
	if ana.ID < 1 || bob.ID <= ana.ID || ana.TokenVersion == 50 {
		t.Fatalf("ids %d and %d, token version %d", ana.ID, bob.ID, ana.TokenVersion)
	}
	equal(t, "users", must(s.Users(ctx, schema))(t), []record.User{ana, bob})

	equal(t, "user by e-mail", must(s.User(ctx, schema, "ANA.NÚÑEZ@example.COM"))(t), ana)
	equal(t, "user by id", must(s.UserByID(ctx, schema, bob.ID))(t), bob)

	_, err := s.CreateUser(ctx, schema, record.User{Email: "ana.núñez@example.com"})
	demand(t, err, record.ErrExists, "create a user again")
	if !strings.Contains(err.Error(), "@") {
		t.Errorf("the error names no address: %v", err)
	}
	demand(t, errorOf(s.UserByID(ctx, schema, bob.ID+1)), record.ErrNotFound, "user by an id that is not there")
}

func userTokens(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	created := must(s.CreateUser(ctx, schema, record.User{Email: "a@b"}))(t)
	if created.HasToken(nil) || created.HasToken([]byte{}) {
		t.Fatal("a user without a token has one")
	}
	digest := bytes.Repeat([]byte{0, 0xff}, 16)
	check(t, s.SetUserToken(ctx, schema, "A@b", digest))
	set := must(s.User(ctx, schema, "a@b"))(t)
	if !set.HasToken(digest) || set.HasToken(digest[1:]) || set.HasToken(nil) || set.TokenVersion <= created.TokenVersion {
		t.Fatalf("after SetUserToken the user is %+v", set)
	}
	check(t, s.DisableUser(ctx, schema, "a@B"))
	check(t, s.DisableUser(ctx, schema, "a@b"))
	disabled := must(s.UserByID(ctx, schema, set.ID))(t)
	if !disabled.Disabled || disabled.TokenVersion != set.TokenVersion+1 {
		t.Fatalf("after DisableUser the user is %+v", disabled)
	}
	demand(t, s.SetUserToken(ctx, schema, "nobody@b", digest), record.ErrNotFound, "SetUserToken")
	demand(t, s.DisableUser(ctx, schema, "nobody@b"), record.ErrNotFound, "DisableUser")
}

// importUsers imports users. Those whose id or address belongs to another user are refused.
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
	first := must(s.Users(ctx, schema))(t)
	equal(t, "number of users", len(first), 2)
	for i, u := range first {
		if u.TokenVersion < 1 {
			t.Errorf("the token version of %s is %d", u.Email, u.TokenVersion)
		}
		users[i].TokenVersion = u.TokenVersion
	}
	equal(t, "users", first, users)
	check(t, s.ImportUsers(ctx, schema, users))
	equal(t, "users after the same import", must(s.Users(ctx, schema))(t), first)
	equal(t, "the next user", must(s.CreateUser(ctx, schema, record.User{Email: "next@b"}))(t).ID, int64(6))

	before := must(s.Users(ctx, schema))(t)
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
	equal(t, "users after what was refused", must(s.Users(ctx, schema))(t), before)
	equal(t, "users of the other tenant", len(must(s.Users(ctx, "other"))(t)), 0)

	users[0].TokenDigest, users[1].Disabled = nil, false
	check(t, s.ImportUsers(ctx, schema, users))
	changed := must(s.Users(ctx, schema))(t)
	equal(t, "a version after the digest changed", changed[0].TokenVersion, first[0].TokenVersion+1)
	equal(t, "a version after the user was let in", changed[1].TokenVersion, first[1].TokenVersion)
	users[1].Disabled = true
	check(t, s.ImportUsers(ctx, schema, users))
	equal(t, "a version after the user was disabled", must(s.UserByID(ctx, schema, 5))(t).TokenVersion, first[1].TokenVersion+1)
}

func hostileEmails(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	must(s.CreateUser(ctx, schema, record.User{Email: "a@b"}))(t)
	for _, email := range []string{"", "a", "a@b\x00", "\xff@b", "' OR 1=1 --@", "%@%", "_@_", "a@b ", strings.Repeat("a", 100_000) + "@b"} {
		demand(t, errorOf(s.User(ctx, schema, email)), record.ErrNotFound, "user")
		demand(t, s.DisableUser(ctx, schema, email), record.ErrNotFound, "disable")
		demand(t, s.SetUserToken(ctx, schema, email, []byte("x")), record.ErrNotFound, "token")
	}
	for _, email := range []string{"", "a", "c@b\x00", "\xff@b", " c@b", strings.Repeat("a", 400) + "@b"} {
		demand(t, errorOf(s.CreateUser(ctx, schema, record.User{Email: email})), record.ErrInvalid, "create")
	}
	equal(t, "number of users", len(must(s.Users(ctx, schema))(t)), 1)
}

func createUserRace(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	oneWins(t, 8, func(int) error {
		return errorOf(s.CreateUser(t.Context(), schema, record.User{Email: "a@b"}))
	}, func(err error) { demand(t, err, record.ErrExists, "create a user again") })
}
