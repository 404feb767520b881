package manifest

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

var (
	schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	// lineBreaks are ignored anywhere in an address.
	lineBreaks = strings.NewReplacer("\t", "", "\n", "", "\r", "")
)

// checkClientURL says why the updater would refuse an address, and with it the
// whole answer. Its parser, Rust's url crate, follows the WHATWG URL standard:
// looser than RFC 3986 after the host, and stricter in it. Addresses that pass
// here pass there; percent-encoded hosts and IPv4 addresses in other forms than
// four decimal numbers pass only there.
func checkClientURL(address string) error {
	address = strings.TrimFunc(address, func(r rune) bool { return r <= ' ' })
	address = lineBreaks.Replace(address)
	scheme := schemePattern.FindString(address)
	rest := address[len(scheme):]
	switch strings.ToLower(scheme) {
	case "":
		return errors.New("it is relative")
	case "http:", "https:", "ws:", "wss:", "ftp:":
		return checkAuthority(upTo(strings.TrimLeft(rest, `/\`), `/\?#`))
	case "file:":
		if len(rest) < 2 || strings.Trim(rest[:2], `/\`) != "" {
			return nil
		}
		if host := upTo(rest[2:], `/\?#`); host != "" {
			return checkHost(host)
		}
		return nil
	}
	if authority, ok := strings.CutPrefix(rest, "//"); ok && upTo(authority, "/?#") != "" {
		return checkAuthority(upTo(authority, "/?#"))
	}
	return nil
}

func upTo(s, ends string) string {
	if i := strings.IndexAny(s, ends); i >= 0 {
		return s[:i]
	}
	return s
}

// checkAuthority checks user:password@host:port, in which the user may be anything.
func checkAuthority(authority string) error {
	hostPort := authority[strings.LastIndexByte(authority, '@')+1:]
	host, port, hasPort := strings.Cut(hostPort, ":")
	if strings.HasPrefix(hostPort, "[") {
		end := strings.IndexByte(hostPort, ']') + 1
		host = hostPort[:end]
		port, hasPort = strings.CutPrefix(hostPort[end:], ":")
		if !hasPort && port != "" {
			return errors.New("its host is not an IPv6 address")
		}
	}
	if hasPort && port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return errors.New("its port is not a number up to 65535")
		}
	}
	return checkHost(host)
}

// domains is at least as strict as the updater in every option.
var domains = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.VerifyDNSLength(true))

func checkHost(host string) error {
	switch {
	case host == "":
		return errors.New("it names no host")
	case host[0] == '[':
		addr, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return errors.New("its host is not an IPv6 address")
		}
		return nil
	case !isASCII(host) || isEncoded(host):
		ascii, err := domains.ToASCII(host)
		if err == nil {
			ascii, err = domains.ToASCII(ascii) // the first pass judges the direction of letters before it maps them
		}
		if err != nil || !isASCII(host) && isEncoded(host) { // half encoded
			return errors.New("its host is not a domain name")
		}
		host = ascii
	}
	if strings.ContainsAny(host, "#/:<>?@[\\]^|% \x7f") || strings.ContainsFunc(host, func(r rune) bool { return r < ' ' }) {
		return errors.New("its host is not a domain name")
	}
	if addr, err := netip.ParseAddr(host); endsInNumber(host) && (err != nil || !addr.Is4()) {
		return errors.New("its host is not an IPv4 address")
	}
	return nil
}

// isEncoded reports whether a name has labels in Punycode.
func isEncoded(host string) bool {
	return strings.Contains(strings.ToLower(host), "xn--")
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// endsInNumber reports whether the updater takes a host for an IPv4 address.
func endsInNumber(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := labels[len(labels)-1]
	if hex, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && isDigits(last)
}

// badURL says why an address can't be a bundle's, and how to fix it. Both are empty
// if it can.
func badURL(s string) (problem, mend string) {
	mend = "write the absolute address, https://HOST/PATH"
	u, err := url.Parse(s)
	switch refused := checkClientURL(s); {
	case err != nil || strings.ContainsAny(s, " \t\r\n\\"):
		return strconv.Quote(s) + " is not an address", mend
	case !u.IsAbs():
		return strconv.Quote(s) + " is relative, which breaks the update for every platform", mend
	case u.Scheme != "http" && u.Scheme != "https":
		return strconv.Quote(s) + " is not an http address", mend
	case u.Hostname() == "":
		return strconv.Quote(s) + " names no host", mend
	case u.User != nil:
		return "the address carries a user name or password, which every client would see", "remove everything before the @"
	case refused != nil:
		return strconv.Quote(s) + " is refused by the updater, which breaks the update for every platform: " + refused.Error(), mend
	}
	return "", ""
}
