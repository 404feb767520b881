package updater

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
)

// maxRequests is how many requests there are for one address, redirects included.
const maxRequests = 10

// redirected takes from a request what the host and port that were asked first
// are to know alone, once it has been sent anywhere else. Package net/http itself
// would tell it to other ports and to subdomains, as the updater does not.
func redirected(next *http.Request, before []*http.Request) error {
	if len(before) >= maxRequests {
		return errors.New("stopped after 10 redirects")
	}
	first := hostAndPort(before[0].URL)
	left := hostAndPort(next.URL) != first
	for _, r := range before {
		left = left || hostAndPort(r.URL) != first
	}
	if left {
		for _, name := range []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Www-Authenticate"} {
			next.Header.Del(name)
		}
	}
	return nil
}

func hostAndPort(u *url.URL) string {
	known := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return u.Hostname() + " " + cmp.Or(u.Port(), known)
}
