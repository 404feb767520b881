package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"tsmon/api/monitor"
	"tsmon/store/record"
)

func (a *app) userCommand() *cobra.Command {
	return group("user", "Create users, disable them and replace their tokens",
		a.userCreateCommand(), a.userListCommand(), a.userDisableCommand(), a.userTokenCommand())
}

// newToken makes a partner token of 256 random bits, and the digest by which the
// store knows it.
func newToken() (token string, digest []byte) {
	token = randomText()
	return token, monitor.TokenDigest(token)
}

// userToken is what `tsmon user create` and `tsmon user token` print.
type userToken struct {
	Schema   string `json:"schema"`
	Email    string `json:"email"`
	ID       int64  `json:"id"`
	TokenApp string `json:"tokenApp"` // shown this once
}

func (a *app) printToken(t userToken) error {
	a.say("the token of %s (user %d of %s) is shown this once; only its hash is stored", t.Email, t.ID, t.Schema)
	return a.print(t, func() { fmt.Fprintln(a.stdout, t.TokenApp) })
}

func (a *app) userCreateCommand() *cobra.Command {
	var u record.User
	cmd := &cobra.Command{
		Use:   "create SCHEMA EMAIL",
		Short: "Create a user and print the partner token, once",
		Long: `Create a user of a tenant. The partner token goes to stdout and is not to be had
again: the store keeps its hash. An address that is taken, in whatever case, is
refused.`,
		Example: `  tsmon user create acueducto ana@example.com --profile 3
  tsmon user create acueducto admin@example.com --admin --json`,
		Args:              exactly(2, "a SCHEMA and an EMAIL"),
		ValidArgsFunction: a.tenantNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			u.Email = args[1]
			return a.runUserCreate(cmd.Context(), args[0], u)
		},
	}
	cmd.Flags().Int64Var(&u.Profile, "profile", 0, "`ID` of the profile whose permissions the user has")
	cmd.Flags().BoolVar(&u.Admin, "admin", false, "may see the permissions of others")
	return cmd
}

func (a *app) runUserCreate(ctx context.Context, schema string, u record.User) error {
	if err := u.Validate(); err != nil {
		return &usageError{err}
	}
	token, digest := newToken()
	u.TokenDigest = digest
	var created record.User
	err := a.withRecords(ctx, func(s record.Store) (err error) {
		created, err = s.CreateUser(ctx, schema, u)
		return err
	})
	if errors.Is(err, record.ErrExists) {
		return &hinted{fmt.Errorf("%q: %w", u.Email, err), "`tsmon user token` gives a user that is there a new token"}
	}
	if err != nil {
		return err
	}
	return a.printToken(userToken{schema, created.Email, created.ID, token})
}

func (a *app) userTokenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "token SCHEMA EMAIL",
		Short: "Replace a user's partner token and print the new one, once",
		Long: `Replace a user's partner token. The new one goes to stdout and is not to be had
again; the old one, and what was issued for it, ends. A disabled user stays
disabled.`,
		Example:           "  tsmon user token acueducto ana@example.com",
		Args:              exactly(2, "a SCHEMA and an EMAIL"),
		ValidArgsFunction: a.tenantNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runUserToken(cmd.Context(), args[0], args[1]) },
	}
}

func (a *app) runUserToken(ctx context.Context, schema, email string) error {
	token, digest := newToken()
	u, err := a.changeUser(ctx, schema, email, func(s record.Store) error {
		return s.SetUserToken(ctx, schema, email, digest)
	})
	if err != nil {
		return err
	}
	if u.Disabled {
		a.warn([]string{email + " is disabled and can't log in"})
	}
	return a.printToken(userToken{schema, u.Email, u.ID, token})
}

// changeUser runs f and returns the user as it is then.
func (a *app) changeUser(ctx context.Context, schema, email string, f func(record.Store) error) (u record.User, err error) {
	err = a.withRecords(ctx, func(s record.Store) (err error) {
		if err = f(s); err == nil {
			u, err = s.User(ctx, schema, email)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("%.80q: %w", email, err)
	}
	return u, err
}

// listedUser is a user as the user commands print it, without any secret.
type listedUser struct {
	Schema   string `json:"schema"`
	Email    string `json:"email"`
	ID       int64  `json:"id"`
	Profile  int64  `json:"profile"` // 0 for none
	Admin    bool   `json:"admin"`
	Disabled bool   `json:"disabled"`
}

func listUser(schema string, u record.User) listedUser {
	return listedUser{schema, u.Email, u.ID, u.Profile, u.Admin, u.Disabled}
}

func (a *app) userListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list SCHEMA",
		Short:             "List the users of a tenant",
		Example:           "  tsmon user list acueducto",
		Args:              exactly(1, "one SCHEMA"),
		ValidArgsFunction: a.tenantNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runUserList(cmd.Context(), args[0]) },
	}
}

func (a *app) runUserList(ctx context.Context, schema string) error {
	users := []listedUser{}
	rows := [][]string{{"ID", "EMAIL", "PROFILE", "ADMIN", "DISABLED"}}
	err := a.withRecords(ctx, func(s record.Store) error {
		list, err := s.Users(ctx, schema)
		for _, u := range list {
			users = append(users, listUser(schema, u))
			rows = append(rows, []string{strconv.FormatInt(u.ID, 10), u.Email, strconv.FormatInt(u.Profile, 10),
				strconv.FormatBool(u.Admin), strconv.FormatBool(u.Disabled)})
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.print(users, func() { table(a.stdout, rows) })
}

func (a *app) userDisableCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "disable SCHEMA EMAIL",
		Short: "Disable a user and end what was issued to it",
		Long: `Disable a user: it can't log in any more, and what was issued to it ends. On a
user that is disabled nothing is done.`,
		Example:           "  tsmon user disable acueducto ana@example.com",
		Args:              exactly(2, "a SCHEMA and an EMAIL"),
		ValidArgsFunction: a.tenantNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runUserDisable(cmd.Context(), args[0], args[1])
		},
	}
}

func (a *app) runUserDisable(ctx context.Context, schema, email string) error {
	u, err := a.changeUser(ctx, schema, email, func(s record.Store) error { return s.DisableUser(ctx, schema, email) })
	if err != nil {
		return err
	}
	return a.print(listUser(schema, u), func() { fmt.Fprintf(a.stdout, "disabled %s\n", u.Email) })
}
