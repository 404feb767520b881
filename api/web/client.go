package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
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

// SameSecret compares two secrets in constant time. Nothing equals an empty want.
func SameSecret(sent, want string) bool {
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}

// Origin is where a request comes from.
type Origin struct {
	Address string
	// Shared says that the address may be that of a proxy, and so of all clients.
	Shared bool
}

// originOf returns the address that the proxy in front reports, or that of the connection.
// Behind a proxy that reports none, the connection's address is the proxy's and identifies
// nobody. originOf assumes such a proxy if the request has headers of one, or comes from this
// machine, since stock proxies add no header.
func originOf(r *http.Request, behindProxy bool) Origin {
	if behindProxy {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
			return Origin{Address: last.String()}
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return Origin{r.RemoteAddr, true}
	}
	address, err := netip.ParseAddr(host)
	return Origin{host, behindProxy || err != nil || address.IsLoopback() || forwarded(r) != ""}
}

// forwarded returns the name of a header that only proxies send, empty if there is none.
func forwarded(r *http.Request) string {
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if r.Header[name] != nil {
			return name
		}
	}
	return ""
}

// FromThisMachine reports whether a request was made on this machine, to a name of this
// machine, and directly: no header says that it was forwarded. The name excludes pages whose
// own name a stranger has resolved to this address.
func FromThisMachine(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded") || slices.Contains(passedOn, name) {
			return false
		}
	}
	return isLocal(r.RemoteAddr) && isLocal(r.Host)
}

// passedOn are headers, besides X-Forwarded-…, that proxies and tunnels add.
var passedOn = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Original-Host", "X-Originating-Ip",
	"X-Proxyuser-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Cf-Ray", "Fastly-Client-Ip", "Fly-Client-Ip", "Cdn-Loop",
}

func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// OtherSite reports whether a browser says that a request comes from a page of another
// server. Other programs send neither header.
func OtherSite(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Values("Origin")
	if site != "" && site != "same-origin" && site != "none" {
		return true
	}
	return len(origin) > 1 || len(origin) == 1 && origin[0] != "http://"+r.Host && origin[0] != "https://"+r.Host
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

// Network returns the network of an address: its first v4 bits, or its first v6 bits if it is an
// IPv6 address, of which one machine may have many. A text that is no address is returned as is.
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
	network, _ := a.Prefix(bits) // fails for impossible numbers of bits only
	return network.String()
}
