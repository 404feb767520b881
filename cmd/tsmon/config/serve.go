package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
)

// ServeCommand returns the command that starts a server for a public URL. It has --listen if the
// URL is http on this machine and its port is not that of the setting listen. For any other URL
// a proxy or a CDN is in front of the server.
func ServeCommand(publicURL, listen string) string {
	const plain = "tsmon serve"
	u, err := url.Parse(publicURL)
	if err != nil || u.Scheme != "http" {
		return plain
	}
	host, port := u.Hostname(), cmp.Or(u.Port(), "80")
	if !IsLoopback(host) {
		return plain
	}
	if _, own, err := net.SplitHostPort(cmp.Or(listen, DefaultListen)); err == nil && own == port {
		return plain
	}
	return plain + " --listen " + net.JoinHostPort(host, port)
}

// IsLoopback reports whether a host, which has no port, is localhost or a loopback address.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
