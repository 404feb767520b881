package updater_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tsmon/manifest/updater"
)

// TestSecretsStayBehind: a redirect takes neither token nor cookie to another host
// or port, nor back again; other headers of the application go everywhere.
func TestSecretsStayBehind(t *testing.T) {
	key := newSigner(t)
	for _, c := range []struct {
		addresses string // each redirects to the next
		told      int    // how many of them hear the secrets
	}{
		{"https://a.example/x", 1},
		{"https://a.example/x https://a.example/y", 2},
		{"https://a.example/x https://a.example:443/y https://a.example/z", 3},
		{"http://a.example:80/x http://a.example/y", 2},
		{"https://a.example/x https://b.example/y", 1},
		{"https://a.example/x https://sub.a.example/y", 1},
		{"https://sub.a.example/x https://a.example/y", 1},
		{"https://a.example/x https://a.example:9000/y", 1},
		{"https://a.example/x http://a.example/y", 1},
		{"http://127.0.0.1:8080/x http://127.0.0.1:9000/y?X-Amz-Signature=z", 1},
		{"https://a.example/x https://a.example/y https://b.example/z https://a.example/z", 2},
		{"http://a.example:8443/x https://a.example:8443/y", 1},
		{"http://[::1]:8080/x http://[::1]:9000/y", 1},
	} {
		chain := strings.Fields(c.addresses)
		told, asked := 0, []string{}
		network := transport(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.String())
			if r.Header.Get("Authorization") == "Bearer hush" && r.Header.Get("Cookie") == "token=hush" {
				told++
			} else if strings.Contains(fmt.Sprint(r.Header), "hush") {
				t.Errorf("%s: half of the secrets came to %s", c.addresses, r.URL)
			}
			if r.Header.Get("X-Tsmon-Client") != "a1b2" {
				t.Errorf("%s: the application's own header did not come to %s", c.addresses, r.URL)
			}
			answer := respond(r, strings.NewReader("bundle"), 6)
			if len(asked) < len(chain) {
				answer.StatusCode, answer.Header = http.StatusFound, http.Header{"Location": {chain[len(asked)]}}
			}
			return answer, nil
		})
		u := &updater.Updater{Keys: key.keys(), HTTP: &http.Client{Transport: network},
			Header: http.Header{"Authorization": {"Bearer hush"}, "Cookie": {"token=hush"}, "X-Tsmon-Client": {"a1b2"}}}
		seen, events := &strings.Builder{}, &recorder{}
		err := u.Fetch(t.Context(), key.offer(chain[0], "bundle", "1.1.0"), seen, events.record)
		if err != nil || seen.String() != "bundle" || !slices.Equal(asked, chain) || told != c.told {
			t.Errorf("%s: asked %q, %d were told the secrets, want %d: %v", c.addresses, asked, told, c.told, err)
		}
	}
}

// TestTokenStaysBelowItsAddress: the token goes to the addresses that it is for and
// no others, and never in place of the application's own Authorization.
func TestTokenStaysBelowItsAddress(t *testing.T) {
	key := newSigner(t)
	for _, c := range []struct {
		below, address, own string
		want                string // Authorization
	}{
		{"https://a.example/app", "https://a.example/app/x", "", "Bearer hush"},
		{"https://a.example/app/", "https://a.example:443/app/x", "", "Bearer hush"},
		{"https://a.example", "https://a.example/x", "", "Bearer hush"},
		{"https://a.example/app", "https://a.example/app/x", "Basic own", "Basic own"},
		{"https://a.example/app", "https://a.example/apple", "", ""},
		{"https://a.example/app", "https://b.example/app/x", "", ""},
		{"https://a.example/app", "https://a.example:8443/app/x", "", ""},
		{"https://a.example/app", "http://a.example/app/x", "", ""},
		{"https://a.example/app", "https://a.example/app/../x", "", ""},
		{"https://a.example/app", "https://a.example/app/%2e%2e/x", "", ""},
		{"", "https://a.example/x", "", ""},
	} {
		got := ""
		network := transport(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Authorization")
			return respond(r, strings.NewReader("bundle"), 6), nil
		})
		u := &updater.Updater{Keys: key.keys(), HTTP: &http.Client{Transport: network}, Token: updater.Token{Secret: "hush", Below: c.below}}
		if c.own != "" {
			u.Header = http.Header{"Authorization": {c.own}}
		}
		if err := u.Fetch(t.Context(), key.offer(c.address, "bundle", "1.1.0"), &strings.Builder{}, func(updater.Event) {}); err != nil || got != c.want {
			t.Errorf("%s, for %q: sent %q, want %q: %v", c.address, c.below, got, c.want, err)
		}
	}
}

// TestTenRedirects are followed, and an eleventh is not.
func TestTenRedirects(t *testing.T) {
	key := newSigner(t)
	for redirects, works := range map[int]bool{10: true, 11: false} {
		asked := 0
		network := transport(func(r *http.Request) (*http.Response, error) {
			asked++
			answer := respond(r, strings.NewReader("bundle"), 6)
			if asked <= redirects {
				answer.StatusCode, answer.Header = http.StatusFound, http.Header{"Location": {fmt.Sprintf("https://a.example/%d", asked)}}
			}
			return answer, nil
		})
		u := &updater.Updater{Keys: key.keys(), HTTP: &http.Client{Transport: network}}
		err := u.Fetch(t.Context(), key.offer("https://a.example/0", "bundle", "1.1.0"), &strings.Builder{}, func(updater.Event) {})
		if (err == nil) != works || asked != 11 || !works && !strings.Contains(err.Error(), "stopped after 10 redirects") {
			t.Errorf("%d redirects: %d requests, %v", redirects, asked, err)
		}
	}
}
