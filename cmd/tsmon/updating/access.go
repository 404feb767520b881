package updating

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest/updater"
)

// accessFlags are what requests for manifests and bundles send besides the
// updater's own headers.
type accessFlags struct{ headers []string }

func (f *accessFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "header that the application sends, as `NAME: VALUE`, such as Authorization or X-Tsmon-Client; repeatable")
}

// client reads the configuration, and returns it with an updater that sends the headers and,
// below public_url, the configured token. An error does not repeat a header's value, which may
// be secret.
func (f accessFlags) client(app *cli.App) (*config.Config, *updater.Updater, error) {
	c, err := app.Load()
	if err != nil {
		return nil, nil, err
	}
	header := http.Header{}
	for _, line := range f.headers {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, nil, cli.WithHint(cli.Usagef("--header is not like NAME: VALUE"), "write it like --header 'X-Tsmon-Client: a1b2'")
		}
		header.Add(name, value)
	}
	return c, &updater.Updater{HTTP: cli.HTTPClient(), Header: header,
		Token: updater.Token{Secret: string(c.Server.Updates.Token), Below: c.PublicURL}}, nil
}

// hintAccess adds the hint to an error caused by a missing token or a private bucket.
func hintAccess(err error) error {
	const mend = "give --header 'Authorization: Bearer TOKEN', or for addresses below public_url set TSMON_UPDATES_TOKEN"
	switch {
	case errors.Is(err, updater.ErrForbidden):
		return cli.WithHint(err, "if a bucket answers there, let everybody read releases/ and the folder of each channel in it, with the policy in the guide (release/README.md, Configure the storage); if a server wants a token, "+mend)
	case errors.Is(err, updater.ErrDenied):
		return cli.WithHint(err, mend)
	}
	return err
}

// checkAddress refuses anything but an absolute http(s) address, which may contain the
// updater's variables, such as {{target}}.
func checkAddress(flag, address string) error {
	u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(address))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cli.Usagef("%s %s is not an absolute http(s) address", flag, address)
	}
	return nil
}
