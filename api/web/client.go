package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Bearer returns the token of the Authorization header, empty if there is none or
// more than one.
func Bearer(r *http.Request) string {
	sent := r.Header.Values("Authorization")
	if len(sent) != 1 {
		return ""
	}
	scheme, text, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// SameSecret compares in a time that depends on neither text. An empty want equals
// nothing.
func SameSecret(sent, want string) bool {
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}

// clientAddress returns the address of the connection, or the one that the proxy
// in front reports.
func clientAddress(r *http.Request, behindProxy bool) string {
	if behindProxy {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
			return last.String()
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// ForwardedHost returns the host that the client asked for, as a proxy reports it.
func ForwardedHost(r *http.Request, behindProxy bool) string {
	if forwarded := r.Header.Get("X-Forwarded-Host"); behindProxy && forwarded != "" {
		return forwarded
	}
	return r.Host
}

// AddressOf returns the absolute URL at which the client finds a path of this
// server.
func AddressOf(r *http.Request, behindProxy bool, path string) string {
	scheme := "http"
	if r.TLS != nil || behindProxy && r.Header.Get("X-Forwarded-Proto") != "http" {
		scheme = "https"
	}
	prefix := "/"
	if strings.HasPrefix(r.URL.Path, "/api/") {
		prefix = "/api/"
	}
	return scheme + "://" + ForwardedHost(r, behindProxy) + prefix + path
}

// Network returns the network of an address: so many bits of an IPv4 address, or of an
// IPv6 address, of which a machine has as many as it likes.
func Network(address string, v4, v6 int) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap()
	bits := v6
	if a.Is4() {
		bits = v4
	}
	network, err := a.Prefix(bits)
	if err != nil {
		return address
	}
	return network.String()
}
