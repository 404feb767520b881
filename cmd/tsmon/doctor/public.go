package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/store/object"
)

// maxRedirects is how many redirects the updater follows.
const maxRedirects = 10

// answer is what an address answered, after redirects.
type answer struct {
	*http.Response // response after the last redirect
	redirects      int
	body           []byte
}

// fetch requests an address as the updater does, and follows redirects.
func (p publicArea) fetch(ctx context.Context, address string, header http.Header) (*answer, error) {
	for redirects := range maxRedirects + 1 {
		got, err := p.fetchOnce(ctx, address, header)
		if err != nil {
			return nil, err
		}
		got.redirects = redirects
		if got.StatusCode < 300 || got.StatusCode > 399 || got.Header.Get("Location") == "" {
			return got, nil
		}
		next, err := got.Location()
		if err != nil {
			return nil, err
		}
		if got.Request.URL.Scheme == "https" && next.Scheme == "http" {
			return nil, fmt.Errorf("%s redirects from https to http", address)
		}
		address = next.String()
	}
	return nil, fmt.Errorf("redirects more than %d times, last to %s", maxRedirects, address)
}

// fetchOnce sends one request. The token goes below public_url only.
func (p publicArea) fetchOnce(ctx context.Context, address string, header http.Header) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header = header.Clone()
	if token := string(p.config.Server.Updates.Token); token != "" && strings.HasPrefix(address, p.config.PublicURL+"/") {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := p.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, manifest.MaxSize+1))
	return &answer{Response: response, body: body}, err
}

// manifestAt requests the manifest that the store has as an object of a name.
func (p publicArea) manifestAt(ctx context.Context, base, key string) (*answer, error) {
	return p.fetch(ctx, base+"/"+key, http.Header{"Accept": {"application/json"}, "Cache-Control": {"no-cache"}})
}

// publicArea compares what clients get at public_url with what is in the store.
type publicArea struct{ *patient }

func (p publicArea) examine(ctx context.Context, n *notes) {
	n.at("public_url")
	if p.config.PublicURL == "" {
		n.fail("set public_url in tsmon.yaml (TSMON_PUBLIC_URL) to the address where clients find the root of the storage", "public_url is missing, so that nothing can be published")
		return
	}
	compared, failed := false, false
	for _, name := range p.config.ChannelNames() {
		data, err := channels.Repository{Store: p.store}.Shown(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			n.at("public_url").warn("see storage", "%s can't be compared with the store: %v", name, err)
		case !failed: // else this one would fail likewise
			failed = !p.served(ctx, n, name, data, !compared)
			compared = true
		}
	}
	if !compared {
		p.answers(ctx, n)
	}
}

// answers checks that an address responds, if there is nothing to compare with yet.
func (p publicArea) answers(ctx context.Context, n *notes) {
	n.at(p.config.PublicURL)
	got, err := p.manifestAt(ctx, p.config.PublicURL, channels.ManifestKey(p.config.ChannelNames()[0]))
	if err != nil {
		p.unreachable(n, err)
		return
	}
	p.transport(n, got)
	if denied(got) {
		p.reportDenied(n, got)
		return
	}
	n.ok("a server answers; whether it serves the storage shows after the first release")
}

// served checks a channel's manifest at its address. Properties that are the same for every
// channel are checked with the first one.
func (p publicArea) served(ctx context.Context, n *notes, name string, stored []byte, first bool) (same bool) {
	n.at(p.config.PublicURL + "/" + channels.ManifestKey(name))
	got, err := p.manifestAt(ctx, p.config.PublicURL, channels.ManifestKey(name))
	believed := p.sound(name, stored)
	switch {
	case err != nil:
		if base := p.found(ctx, name, stored); base != "" {
			n.fail(setPublicURL+base, "clients can't reach it: %v", err)
		} else {
			p.unreachable(n, err)
		}
		return false
	case denied(got):
		p.reportDenied(n, got)
		return false
	case got.StatusCode >= 500 && !believed:
		n.fail("see channels", "answers with status %d: no server shows what it can't believe", got.StatusCode)
		return true
	case got.StatusCode >= 500:
		n.fail("the log of the server there says why; `tsmon serve` needs the same storage and trusted_keys as here. If its records have seen a longer log, or another one, as before a restore, it names the `tsmon channel verify "+name+" --from … --accept` that gives that up",
			"answers with status %d", got.StatusCode)
		return false
	case got.StatusCode != http.StatusOK:
		n.fail(p.elsewhere(ctx, name, stored), "answers with status %d, not with the manifest in the store", got.StatusCode)
		return false
	case !bytes.Equal(got.body, stored) && !believed:
		n.warn("see channels", "serves something else than the store has, which is not to be believed")
		return true
	case !bytes.Equal(got.body, stored):
		if now, err := (channels.Repository{Store: p.store}).Shown(ctx, name); err == nil && bytes.Equal(now, got.body) {
			break // the channel was moved meanwhile
		}
		p.reportOther(ctx, n, name, got.body, stored)
		return false
	}
	n.ok("serves %s as it is in the store%s", name, redirected(got))
	p.caching(n, got)
	if first {
		p.transport(n, got)
		p.bundles(ctx, n, got.body)
		p.private(ctx, n)
	}
	if p.config.Channels[name].Rings {
		p.rings(ctx, n, name)
	}
	return true
}

func redirected(a *answer) string {
	if a.redirects == 0 {
		return ""
	}
	return fmt.Sprintf(", after %s to %s", cli.Count(a.redirects, "redirect", "redirects"), a.Request.URL.Host)
}

// unreachable reports an address that does not respond, with a hint.
func (p publicArea) unreachable(n *notes, err error) {
	mend := "check public_url (TSMON_PUBLIC_URL), the server there and the network"
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		mend = "start the server there, such as `" + config.ServeCommand(p.config.PublicURL, p.config.Server.Listen) + "`; if one runs elsewhere, correct public_url (TSMON_PUBLIC_URL)"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		mend = "use a certificate of a public authority, and serve its whole chain"
	case errors.As(err, new(x509.HostnameError)):
		mend = "use a certificate for this host, or correct public_url (TSMON_PUBLIC_URL)"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		mend = "renew the certificate; if it is new, check the clock of this machine"
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	n.fail(mend, "clients can't reach it: %v", err)
}

func denied(a *answer) bool {
	return a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusForbidden
}

func (p publicArea) reportDenied(n *notes, a *answer) {
	switch {
	case p.config.Server.Updates.Token != "":
		n.fail("set server.updates.token (TSMON_UPDATES_TOKEN) to the token of the server there", "refuses the configured token (status %d)", a.StatusCode)
	case strings.HasPrefix(p.config.Storage, "s3:"):
		n.fail("let everybody read "+strings.Join(p.config.ChannelNames(), "/, ")+"/ and releases/ in the bucket, and nothing else (`mc anonymous set download ALIAS/BUCKET/PREFIX/releases`), or set server.updates.token (TSMON_UPDATES_TOKEN) if the server there wants one", "refuses to answer without credentials (status %d)", a.StatusCode)
	default:
		n.fail("set server.updates.token (TSMON_UPDATES_TOKEN) to the token that the server there wants", "refuses to answer without credentials (status %d)", a.StatusCode)
	}
}

// reportOther reports a body that differs from the stored manifest.
func (p publicArea) reportOther(ctx context.Context, n *notes, name string, body, stored []byte) {
	served, err := manifest.Decode(body)
	inStore, bad := manifest.Decode(stored)
	switch {
	case bad != nil:
		n.warn("see channels", "can't be compared: the store has no valid manifest of %s", name)
	case err != nil:
		n.fail(p.elsewhere(ctx, name, stored), "serves something else than the manifest in the store: %v", err)
	case served.Sequence < inStore.Sequence && served.Sequence > 0 && !sharesKey(served, inStore):
		n.fail("if a `tsmon serve` runs there, write the trusted_keys of here into its tsmon.yaml and reload it (SIGHUP); if not, have the cache there honour Cache-Control: "+channels.CacheControl,
			"serves %s (entry %d), where the store has %s (entry %d), which another key signed: a server that does not trust it keeps the older one", served.Version, served.Sequence, inStore.Version, inStore.Sequence)
	case served.Sequence < inStore.Sequence && served.Sequence > 0:
		n.warn("wait a minute, then run `tsmon doctor` again; if it stays, have the cache there honour Cache-Control: "+channels.CacheControl,
			"serves %s (entry %d), where the store has %s (entry %d)", served.Version, served.Sequence, inStore.Version, inStore.Sequence)
	default:
		n.fail(p.elsewhere(ctx, name, stored), "serves other bytes than the store has: %s (entry %d) instead of %s (entry %d)", served.Version, served.Sequence, inStore.Version, inStore.Sequence)
	}
}

// sharesKey reports whether the readable signatures of two manifests have a key in common.
func sharesKey(a, b *manifest.Manifest) bool {
	first, second := signers(a), signers(b)
	return len(first) == 0 || len(second) == 0 || slices.ContainsFunc(first, func(id string) bool { return slices.Contains(second, id) })
}

// signers returns the ids of the keys that signed bundles of a manifest.
func signers(m *manifest.Manifest) (ids []string) {
	for _, platform := range m.Platforms {
		if s, err := signing.ParseSignature(platform.Signature); err == nil {
			ids = append(ids, s.KeyID())
		}
	}
	return ids
}

const setPublicURL = "set public_url (TSMON_PUBLIC_URL) to "

// found returns the address that serves the storage, empty if it is unknown.
func (p publicArea) found(ctx context.Context, name string, stored []byte) string {
	for _, base := range p.candidates() {
		if got, err := p.manifestAt(ctx, base, channels.ManifestKey(name)); err == nil && got.StatusCode == http.StatusOK && bytes.Equal(got.body, stored) {
			return base
		}
	}
	return ""
}

// elsewhere returns the hint with the right public_url.
func (p publicArea) elsewhere(ctx context.Context, name string, stored []byte) string {
	if base := p.found(ctx, name, stored); base != "" {
		return setPublicURL + base
	}
	return setPublicURL + "the address where clients find the root of the storage, so that PUBLIC_URL/" + channels.ManifestKey(name) +
		" is the object of that name; `tsmon serve` serves it below /updates"
}

// candidates returns addresses that public_url was possibly meant to be.
func (p publicArea) candidates() []string {
	u, err := url.Parse(p.config.PublicURL)
	if err != nil {
		return nil
	}
	root := u.Scheme + "://" + u.Host
	found := []string{p.config.PublicURL + "/updates"}
	for path := u.Path; path != ""; {
		path = path[:max(strings.LastIndex(path, "/"), 0)]
		found = append(found, root+path, root+path+"/updates")
	}
	if s3, err := url.Parse(p.config.Storage); err == nil && s3.Scheme == "s3" {
		inBucket := "/" + s3.Host + strings.TrimRight(s3.Path, "/")
		found = append(found, root+inBucket)
		if endpoint := s3.Query().Get("endpoint"); endpoint != "" {
			found = append(found, strings.TrimRight(endpoint, "/")+inBucket)
		}
	}
	return found
}

// caching compares how long caches keep a manifest with what the publisher says.
func (p publicArea) caching(n *notes, a *answer) {
	wanted, _ := maxAge(channels.CacheControl)
	header := strings.Join(a.Header.Values("Cache-Control"), ", ")
	age, stated := maxAge(header)
	mend := "serve latest.json with Cache-Control: " + channels.CacheControl
	switch {
	case header == "":
		n.warn(mend, "has no Cache-Control, so that caches keep it as long as they like")
	case strings.Contains(header, "no-store") || strings.Contains(header, "no-cache"):
		n.ok("is not cached (Cache-Control: %s)", header)
	case !stated || age > wanted:
		n.warn(mend, "may be kept by caches for longer than %d s (Cache-Control: %s)", wanted, header)
	default:
		n.ok("is cached for %d s at most", age)
	}
}

// maxAge returns the seconds for which a shared cache may keep an answer.
func maxAge(header string) (seconds int, stated bool) {
	for _, name := range []string{"s-maxage", "max-age"} {
		for directive := range strings.SplitSeq(header, ",") {
			key, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			if n, err := strconv.Atoi(strings.Trim(value, `"`)); err == nil && strings.EqualFold(key, name) {
				return n, true
			}
		}
	}
	return 0, false
}

// transport examines TLS and its certificate.
func (p publicArea) transport(n *notes, a *answer) {
	if a.TLS == nil || len(a.TLS.PeerCertificates) == 0 {
		if p.project == nil || !p.project.Base.Updater.AllowHTTP {
			n.warn("serve it over https; release builds of applications ask nothing else", "is not https")
		}
		return
	}
	validity(n, a.TLS.PeerCertificates[0], p.App.Now())
}

// bundles asks for the first byte of each bundle of a manifest.
func (p publicArea) bundles(ctx context.Context, n *notes, body []byte) {
	m, err := manifest.Decode(body)
	if err != nil {
		return // reported with the channel
	}
	asked, ranged, whole := map[string]bool{}, 0, 0
	for _, key := range m.Keys() {
		address := m.Platforms[key].URL
		if asked[address] {
			continue
		}
		asked[address] = true
		n.at(address)
		got, err := p.fetch(ctx, address, http.Header{"Range": {"bytes=0-0"}})
		switch {
		case err != nil:
			p.unreachable(n, err)
		case got.StatusCode == http.StatusPartialContent:
			ranged++
			p.size(ctx, n, got, address)
		case got.StatusCode == http.StatusOK:
			whole++
		case !strings.HasPrefix(address, p.config.PublicURL+"/"):
			n.fail("publish a new version: its manifest has addresses below "+p.config.PublicURL, "the bundle for %s is not served (status %d); it was published for another public_url", key, got.StatusCode)
		default:
			n.fail("serve everything below releases/ of the storage, as it serves latest.json", "the bundle for %s is not served (status %d)", key, got.StatusCode)
		}
	}
	n.at(p.config.PublicURL)
	if whole > 0 {
		n.warn("let the server honour Range requests, as MinIO, S3, nginx and `tsmon serve` do", "%d of %d bundles are served only whole: an interrupted download begins again", whole, ranged+whole)
	} else if ranged > 0 {
		n.ok("serves %s of %s, in parts too", cli.Count(ranged, "bundle", "bundles"), m.Version)
	}
}

// size compares the length of a served bundle with the stored one.
func (p publicArea) size(ctx context.Context, n *notes, a *answer, address string) {
	escaped, below := strings.CutPrefix(address, p.config.PublicURL+"/")
	key, err := url.PathUnescape(escaped)
	_, total, _ := strings.Cut(a.Header.Get("Content-Range"), "/")
	if !below || err != nil || object.ValidKey(key) != nil {
		return
	}
	info, err := p.store.Stat(ctx, key)
	if err == nil && total != strconv.FormatInt(info.Size, 10) {
		n.fail("clear the cache there; no bundle changes under its name", "is %s bytes long there, and %d in the store", cmp.Or(total, "?"), info.Size)
	}
}

// isRefused reports whether nothing listens at an address.
func isRefused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && !op.Timeout()
}
