package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"tsmon/api/monitor"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
)

// UserCommand returns `tsmon user`.
func UserCommand(app *cli.App) *cobra.Command {
	return cli.Group("user", "Create users, disable or delete them and replace their tokens",
		userCreateCommand(app), userListCommand(app), userDisableCommand(app), userDeleteCommand(app), userTokenCommand(app))
}

// UserToken is what `tsmon user create` and `tsmon user token` print.
type UserToken struct {
	Schema   string `json:"schema"`
	Email    string `json:"email"`
	ID       int64  `json:"id"`
	TokenApp string `json:"tokenApp"` // never shown again
}

// printToken prints a token, which can't be shown again.
func printToken(app *cli.App, t UserToken) error {
	app.Say("the token of %s (user %d of %s) is shown only now; the store keeps its hash", t.Email, t.ID, t.Schema)
	err := app.Print(t, func(w io.Writer) { fmt.Fprintln(w, t.TokenApp) })
	if err != nil {
		err = cli.WithHint(fmt.Errorf("the token of %s (user %d of %s) is set, but lost: %w", t.Email, t.ID, t.Schema, err),
			fmt.Sprintf("`tsmon user token %s %s` replaces it and prints the new one", t.Schema, t.Email))
	}
	return err
}

func userCreateCommand(app *cli.App) *cobra.Command {
	var u record.User
	cmd := &cobra.Command{
		Use:   "create SCHEMA EMAIL",
		Short: "Create a user and print the partner token, once",
		Long: `Create a user of a tenant. The partner token is printed to stdout and can't be shown
again, since the store keeps only its hash. An address that already exists is refused,
regardless of upper and lower case.`,
		Example: `  tsmon user create acueducto ana@example.com --profile 3
  tsmon user create acueducto admin@example.com --admin --json`,
		Args: cli.Args(2, 2, "a SCHEMA and an EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			u.Email = args[1]
			return runUserCreate(cmd.Context(), app, args[0], u)
		},
	}
	cmd.Flags().Int64Var(&u.Profile, "profile", 0, "`ID` of the profile whose permissions the user has")
	cmd.Flags().BoolVar(&u.Admin, "admin", false, "let the user see the permissions of others")
	return cmd
}

func runUserCreate(ctx context.Context, app *cli.App, schema string, u record.User) error {
	if err := u.Validate(); err != nil {
		return cli.Usage(err)
	}
	token := cli.RandomText()
	u.TokenDigest = monitor.TokenDigest(token)
	created, err := fromRecords(ctx, app, func(s record.Store) (record.User, error) { return s.CreateUser(ctx, schema, u) })
	if errors.Is(err, record.ErrExists) {
		return cli.WithHint(cli.Reword(err, "%s already has a user %s", schema, u.Email), "`tsmon user token` gives an existing user a new token")
	}
	if err != nil {
		return err
	}
	return printToken(app, UserToken{schema, created.Email, created.ID, token})
}

func userTokenCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "token SCHEMA EMAIL",
		Short: "Replace a user's partner token and print the new one, once",
		Long: `Replace a user's partner token. The new one is printed to stdout and can't be shown
again. The old one stops working, and so do access tokens issued for it. A disabled
user stays disabled.`,
		Example: "  tsmon user token acueducto ana@example.com",
		Args:    cli.Args(2, 2, "a SCHEMA and an EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, schema, email := cmd.Context(), args[0], args[1]
			token := cli.RandomText()
			u, err := changeUser(ctx, app, schema, email, func(s record.Store) error {
				return s.SetUserToken(ctx, schema, email, monitor.TokenDigest(token))
			})
			if err != nil {
				return err
			}
			if u.Disabled {
				app.Warn([]string{email + " is disabled and can't log in"})
			}
			return printToken(app, UserToken{schema, u.Email, u.ID, token})
		},
	}
}

// changeUser runs f and returns the user as f left it.
func changeUser(ctx context.Context, app *cli.App, schema, email string, f func(record.Store) error) (u record.User, err error) {
	err = withRecords(ctx, app, func(s record.Store) (err error) {
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

// ListedUser is what the other user commands print: a user without secrets.
type ListedUser struct {
	Schema   string `json:"schema"`
	Email    string `json:"email"`
	ID       int64  `json:"id"`
	Profile  int64  `json:"profile"` // 0 for none
	Admin    bool   `json:"admin"`
	Disabled bool   `json:"disabled"`
}

func listUser(schema string, u record.User) ListedUser {
	return ListedUser{schema, u.Email, u.ID, u.Profile, u.Admin, u.Disabled}
}

func userListCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list SCHEMA",
		Short:   "List the users of a tenant",
		Example: "  tsmon user list acueducto",
		Args:    cli.Args(1, 1, "one SCHEMA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			read := func(s record.Store) (listed []ListedUser, err error) {
				users, err := s.Users(cmd.Context(), args[0])
				for _, u := range users {
					listed = append(listed, listUser(args[0], u))
				}
				return listed, err
			}
			return printAll(cmd.Context(), app, []string{"ID", "EMAIL", "PROFILE", "ADMIN", "DISABLED"}, read, func(u ListedUser) []string {
				return []string{strconv.FormatInt(u.ID, 10), u.Email, strconv.FormatInt(u.Profile, 10), strconv.FormatBool(u.Admin), strconv.FormatBool(u.Disabled)}
			})
		},
	}
}

func userDisableCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "disable SCHEMA EMAIL",
		Short: "Disable a user and revoke its access tokens",
		Long: `Disable a user: it can't log in any more, and its access tokens stop working
within a minute. If the user is disabled already, nothing changes.`,
		Example: "  tsmon user disable acueducto ana@example.com",
		Args:    cli.Args(2, 2, "a SCHEMA and an EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, schema, email := cmd.Context(), args[0], args[1]
			u, err := changeUser(ctx, app, schema, email, func(s record.Store) error { return s.DisableUser(ctx, schema, email) })
			if err != nil {
				return err
			}
			return app.Print(listUser(schema, u), func(w io.Writer) { fmt.Fprintf(w, "disabled %s\n", u.Email) })
		},
	}
}
