package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

func (c *Config) check() (found Mistakes) {
	found = append(found, c.checkOperators()...)
	if err := CheckProject(c.Project); c.Project != "" && err != nil {
		found = append(found, Mistake{Setting: "project", Text: err.Error()})
	}
	if u, err := url.Parse(c.PublicURL); err != nil || c.PublicURL != "" && !isAddress(c.PublicURL) {
		found = append(found, wrong("public_url", "is not an absolute http(s) address"))
	} else {
		found.unless(u.User == nil && u.RawQuery == "" && u.Fragment == "", "public_url", "must have no user, query or fragment")
	}
	found = append(found, c.checkRedirect()...)
	found = append(found, checkRecords(string(c.Server.Records))...)
	found = append(found, c.Server.check()...)
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		follows := c.Channels[name].Follows
		if follows == "" {
			continue
		}
		m := Mistake{Setting: "channels." + name + ".follows", Text: fmt.Sprintf("channels.%s follows %s, which ", name, follows)}
		if leader, ok := c.Channels[follows]; !ok {
			m.Text += "is not configured"
			found = append(found, m)
		} else if leader.Follows != "" {
			m.Text += "itself follows another"
			found = append(found, m)
		}
	}
	return found
}

var projectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// CheckProject refuses names that can't be those of a project and its folder.
func CheckProject(name string) error {
	if projectName.MatchString(name) {
		return nil
	}
	return errors.New("project must be a name like com.example.app: at most 100 letters, digits, dots, hyphens and underscores")
}

func (c *Config) checkRedirect() Mistakes {
	u := c.Server.Updates
	const redirect, endpoint = "server.updates.redirect", "server.updates.presign_endpoint"
	switch {
	case u.Redirect != "" && u.Redirect != RedirectPublic && u.Redirect != RedirectPresigned:
		return Mistakes{wrong(redirect, "must be public (or true), presigned or false (TSMON_UPDATES_REDIRECT)")}
	case u.Redirect == RedirectPublic && c.PublicURL == "":
		return Mistakes{wrong(redirect, "needs public_url, where bundles are (TSMON_UPDATES_REDIRECT and TSMON_PUBLIC_URL)")}
	case u.Redirect == RedirectPresigned && !strings.HasPrefix(c.Storage, "s3:"):
		return Mistakes{{Setting: redirect, Text: redirect + ": presigned needs a storage like s3://BUCKET/PREFIX (TSMON_UPDATES_REDIRECT and TSMON_STORAGE)"}}
	case u.Redirect != RedirectPresigned && u.PresignEndpoint != "":
		return Mistakes{wrong(endpoint, "needs redirect: presigned (TSMON_UPDATES_PRESIGN_ENDPOINT and TSMON_UPDATES_REDIRECT)")}
	}
	return nil
}

// Minimum lengths in bytes: of a secret, and of each of Server.Secrets.
const (
	minSecret      = 16
	minOuterSecret = 32
)

// Bounds of Updates.Clients. With fewer clients estimates are poor; more slow the guard down.
const (
	minClients = 1_000
	maxClients = 10_000_000
)

// maxDrain bounds Drain and DrainDownloads.
const maxDrain = time.Hour

// maxDays bounds AuditDays and Upload.Days.
const maxDays = 36_500

// Bounds of Refresh. Asking the store more often gains nothing.
const (
	minRefresh = 10 * time.Millisecond
	maxRefresh = time.Minute
)

// HasSecret reports whether the keys of access tokens and the secrets of clients are stored in
// the records, encrypted.
func (s Server) HasSecret() bool { return len(s.Secrets) > 0 || s.SecretFile != "" }

func (s Server) check() (found Mistakes) {
	found.unless((s.TLS.Cert == "") == (s.TLS.Key == ""), "server.tls", "needs both cert and key (TSMON_TLS_CERT and TSMON_TLS_KEY)")
	found.unless((s.Upload.AccessKey == "") == (s.Upload.SecretKey == ""), "server.upload", "needs both access_key and secret_key (TSMON_UPLOAD_ACCESS_KEY and TSMON_UPLOAD_SECRET_KEY)")
	found.unless(s.Upload.MaxBytes >= 0 && s.Upload.MaxBytes <= 1<<30, "server.upload.max_bytes", "is not between 1 and 1 GiB")
	found.unless(s.AuditDays >= 0 && s.AuditDays <= maxDays, "server.audit_days", "is not between 0 and %d (TSMON_AUDIT_DAYS)", maxDays)
	found.unless(s.Upload.Days >= 0 && s.Upload.Days <= maxDays, "server.upload.days", "is not between 0 and %d (TSMON_UPLOAD_DAYS)", maxDays)
	found.unless(s.Refresh >= minRefresh && s.Refresh <= maxRefresh, "server.refresh", "is not between %s and %s (TSMON_REFRESH)", minRefresh, maxRefresh)
	found.unless(s.Drain >= 0 && s.Drain <= maxDrain, "server.drain", "is not between 0s and %s (TSMON_DRAIN)", maxDrain)
	found.unless(s.DrainDownloads >= 0 && s.DrainDownloads <= maxDrain, "server.drain_downloads", "is not between 0s and %s (TSMON_DRAIN_DOWNLOADS)", maxDrain)
	found.unless(slices.Contains([]string{"debug", "info", "warn", "error"}, s.Log.Level), "server.log.level", "is not debug, info, warn or error (TSMON_LOG_LEVEL)")
	found.unless(s.Log.Format == LogJSON || s.Log.Format == LogText, "server.log.format", "is neither json nor text (TSMON_LOG_FORMAT)")

	found.unless(s.Webhook == "" || isAddress(string(s.Webhook)), "server.webhook", "is not an absolute http(s) address (TSMON_WEBHOOK)")
	found.unless(s.WebhookSecret.orLong(minSecret), "server.webhook_secret", "has fewer than %d characters (TSMON_WEBHOOK_SECRET)", minSecret)
	if encoded, ok := strings.CutPrefix(string(s.WebhookSecret), "whsec_"); ok {
		_, err := base64.StdEncoding.DecodeString(encoded)
		found.unless(err == nil, "server.webhook_secret", "is not base64 after whsec_ (TSMON_WEBHOOK_SECRET)")
	}
	found.unless(s.MetricsKey.orLong(minSecret), "server.metrics_key", "has fewer than %d characters (TSMON_METRICS_KEY)", minSecret)
	found.unless(s.Console.Token.orLong(minSecret), "server.console.token", "has fewer than %d characters (TSMON_CONSOLE_TOKEN)", minSecret)
	found.unless(s.Console.Token.inHeader(), "server.console.token", "has a character that browsers can't send (TSMON_CONSOLE_TOKEN)")

	for _, secret := range s.Secrets {
		found.unless(len(secret) >= minOuterSecret, "server.secrets", "has a secret of fewer than %d characters (TSMON_SECRET)", minOuterSecret)
	}
	found.unless(len(s.Secrets) == 0 || s.SecretFile == "", "server.secret_file", "and server.secrets exclude each other (TSMON_SECRET_FILE and TSMON_SECRET)")
	for _, secret := range s.Updates.ReportSecrets {
		found.unless(len(secret) >= minSecret, "server.updates.report_secrets", "has a secret of fewer than %d characters (TSMON_UPDATES_REPORT_SECRETS)", minSecret)
	}
	found.unless(s.Updates.Clients >= minClients && s.Updates.Clients <= maxClients, "server.updates.clients", "is not between %d and %d (TSMON_UPDATES_CLIENTS)", minClients, maxClients)
	found.unless(s.Updates.Token.inHeader(), "server.updates.token", "has a character that clients can't send (TSMON_UPDATES_TOKEN)")
	return found
}

// orLong reports whether a secret is empty or has at least this many bytes.
func (s Secret) orLong(least int) bool { return s == "" || len(s) >= least }

// inHeader reports whether a secret can be part of a header.
func (s Secret) inHeader() bool {
	return !strings.ContainsFunc(string(s), func(c rune) bool { return c <= ' ' || c > '~' })
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// checkRecords refuses a mistyped URL, which would be taken for a path and shown with its
// password in errors.
func checkRecords(records string) Mistakes {
	scheme, _, isURL := strings.Cut(records, "://")
	switch {
	case isURL && (scheme == "postgres" || scheme == "postgresql"):
		return nil
	case isURL, strings.Contains(records, "postgres:"), strings.Contains(records, "postgresql:"), strings.Contains(records, "password="):
		return Mistakes{wrong("server.records", "is neither a file path nor a URL like postgres://USER:PASSWORD@HOST/DATABASE")}
	}
	return nil
}
