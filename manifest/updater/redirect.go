package updater

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// maxRedirects is how many redirects the updater's HTTP client, reqwest, follows.
const maxRedirects = 10

// redirected drops credentials for good once a redirect leaves the scheme, host
// and port of the first request, as reqwest does. Package net/http would send them
// to other ports and to subdomains.
func redirected(next *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	first := origin(before[0].URL)
	if slices.ContainsFunc(append(before[1:len(before):len(before)], next), func(r *http.Request) bool { return origin(r.URL) != first }) {
		for _, name := range []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Www-Authenticate"} {
			next.Header.Del(name)
		}
	}
	return nil
}

// Token is a bearer token for the address Below and everything under its path. It
// is not sent where a Header already has Authorization.
type Token struct{ Secret, Below string }

// String hides the secret.
func (Token) String() string { return "***" }

func (t Token) covers(u *url.URL) bool {
	below, err := url.Parse(t.Below)
	return err == nil && t.Secret != "" && below.Host != "" && origin(u) == origin(below) &&
		strings.HasPrefix(path.Clean(u.Path), strings.TrimSuffix(below.Path, "/")+"/")
}

func origin(u *url.URL) string {
	known := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return u.Scheme + "://" + u.Hostname() + " " + cmp.Or(u.Port(), known)
}
