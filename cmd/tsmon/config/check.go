package config

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

func (c *Config) check() (found Mistakes) {
	const redirect = "server.updates.redirect"
	u := c.Server.Updates
	found = append(found, c.checkOperators()...)
	if err := CheckProject(c.Project); c.Project != "" && err != nil {
		found = append(found, Mistake{Setting: "project", Text: err.Error()})
	}
	if public, err := url.Parse(c.PublicURL); err != nil || c.PublicURL != "" && !isAddress(c.PublicURL) {
		found = append(found, wrong("public_url", "is not an absolute http(s) address"))
	} else {
		found.unless(public.User == nil && public.RawQuery == "" && public.Fragment == "", "public_url", "must have no user, query or fragment")
	}
	found.unless(u.Redirect == "" || u.Redirect == RedirectPublic || u.Redirect == RedirectPresigned, redirect, "must be public (or true), presigned or false (TSMON_UPDATES_REDIRECT)")
	found.unless(u.Redirect != RedirectPublic || c.PublicURL != "", redirect, "needs public_url, where bundles are (TSMON_UPDATES_REDIRECT and TSMON_PUBLIC_URL)")
	found.unless(u.Redirect != RedirectPresigned || strings.HasPrefix(c.Storage, "s3:"), redirect, "is presigned, which needs a storage like s3://BUCKET/PREFIX (TSMON_UPDATES_REDIRECT and TSMON_STORAGE)")
	found.unless(u.Redirect == RedirectPresigned || u.PresignEndpoint == "", "server.updates.presign_endpoint", "needs redirect: presigned (TSMON_UPDATES_PRESIGN_ENDPOINT and TSMON_UPDATES_REDIRECT)")
	found.unless(isRecords(string(c.Server.Records)), "server.records", "is neither a file path nor a URL like postgres://USER:PASSWORD@HOST/DATABASE")
	found = append(found, c.Server.check()...)
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		setting, follows := "channels."+name+".follows", c.Channels[name].Follows
		leader, ok := c.Channels[follows]
		found.unless(ok || follows == "", setting, "names %s, which is not configured", follows)
		found.unless(leader.Follows == "", setting, "names %s, which itself follows another", follows)
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

// Bounds of the settings of Server.
const (
	minSecret      = 16         // bytes of a secret
	minOuterSecret = 32         // bytes of each of Secrets
	minClients     = 1_000      // with fewer, estimates are poor
	maxClients     = 10_000_000 // more slow the guard down
	maxDays        = 36_500
	maxDrain       = time.Hour
	minRefresh     = 10 * time.Millisecond // asking the store more often gains nothing
	maxRefresh     = time.Minute
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

// isRecords reports whether a text is a URL of PostgreSQL or a path. A mistyped URL would be taken
// for a path and shown with its password in errors.
func isRecords(text string) bool {
	if scheme, _, isURL := strings.Cut(text, "://"); isURL {
		return scheme == "postgres" || scheme == "postgresql"
	}
	return !strings.Contains(text, "postgres:") && !strings.Contains(text, "postgresql:") && !strings.Contains(text, "password=")
}
