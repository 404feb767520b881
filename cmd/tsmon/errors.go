package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Exit codes, as `tsmon help` lists them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitRefused  = 3
	exitConflict = 4
	exitTrust    = 5
)

// usageError is a wrong flag, argument or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// hinted is an error whose remedy only the command knows.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// refused is an error for which nothing was written.
type refused struct{ error }

func (e *refused) Unwrap() error { return e.error }

// trustErrors are what exit code 5 stands for.
var trustErrors = []error{
	signing.ErrUntrustedKey, signing.ErrSignature, signing.ErrUnbound, signing.ErrBound,
	signing.ErrPassword, signing.ErrLegacy, release.ErrStored,
}

// hints are the remedies for errors that carry none themselves, most specific
// first.
var hints = []struct {
	is   error
	hint string
}{
	{context.Canceled, "the same command again completes what was begun"},
	{signing.ErrPassword, "set TAURI_SIGNING_PRIVATE_KEY_PASSWORD, or type the password when asked"},
	{signing.ErrUntrustedKey, "compare `tsmon keys show` with trusted_keys and with plugins.updater.pubkey in tauri.conf.json"},
	{signing.ErrSignature, "the file was changed after it was signed (code-signed, notarised, rebuilt): sign it again with `tsmon release sign`"},
	{signing.ErrUnbound, "sign again with `tsmon release sign --version V`; --allow-unbound takes it all the same, but strict applications refuse it"},
	{signing.ErrBound, "give every bundle the signature that was made for this version and target"},
	{signing.ErrLegacy, "sign again with `tsmon release sign`, which hashes the bundle first"},
	{object.ErrNoStore, "check storage; a bucket is created with the store's own tools, such as mc mb"},
	{object.ErrFull, "make room in the store, then run the same command again"},
	{object.ErrUnavailable, "check that the endpoint in storage is up and reachable; the same command again completes what was begun"},
	{object.ErrCorrupt, "run the same command again; if it stays, the store or the way to it damages data"},
	{object.ErrUnconditional, "use a store that honours If-None-Match on PUT, such as MinIO or S3"},
	{object.ErrChanged, "somebody else moves the channel all the time: run the same command again"},
	{fs.ErrPermission, "check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and their rights, or the permissions of the folder"},
	{channels.ErrName, "`tsmon channel list` shows the channels of the store"},
	{errNoRecords, "`tsmon tenant create` makes the first tenant and the store; TSMON_RECORDS or TSMON_DATA say where it lies"},
	{errNoSeries, "`tsmon tenant create` makes the store; TSMON_SERIES_URL or TSMON_DATA say where it lies"},
	{record.ErrNotFound, "`tsmon tenant list` shows the tenants, `tsmon user list SCHEMA` the users of one"},
	{record.ErrConflict, "put both diagrams into the file, or give the object another id"},
	{record.ErrName, "a schema name has lower-case letters, digits and underscores"},
	{record.ErrUnavailable, "check that the database in server.records (TSMON_RECORDS) is up and reachable; the same command again completes what was begun"},
	{series.ErrNoDatabase, "`tsmon tenant create` makes the database of a tenant; `tsmon tenant list` shows them"},
	{series.ErrUnavailable, "check that the server in server.series (TSMON_SERIES_URL) is up and reachable; the same command again completes what was begun"},
	{channels.ErrLog, "`tsmon channel verify` says what is wrong; the log's objects are never changed or deleted by tsmon"},
	{updater.ErrTimeout, "check the address and the network"},
	{updater.ErrStatus, "check the address; a server answers there, but not with this file"},
	{updater.ErrNoRelease, "check the addresses; every endpoint answered, none with a release"},
	{manifest.ErrNotJSON, "the updater stops here without asking further endpoints: serve JSON, or a status outside 2xx"},
	{manifest.ErrShape, "`tsmon manifest validate URL` names every deviation"},
	{fs.ErrNotExist, "check the path"},
	{manifest.ErrVersion, "write MAJOR.MINOR.PATCH, such as 1.3.0"},
	{manifest.ErrTarget, "publish a bundle for this platform, or check --target and --bundle-type"},
}

// exitCode classifies an error.
func exitCode(err error) int {
	var problems manifest.Problems
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case errors.As(err, new(*usageError)), is(release.ErrConfig), is(channels.ErrName):
		return exitUsage
	case is(record.ErrName):
		return exitUsage
	case errors.As(err, new(*refused)), is(record.ErrExists), is(record.ErrConflict):
		return exitRefused
	case is(release.ErrProbe):
		return exitFailed
	case errors.As(err, new(*channels.ConflictError)), is(object.ErrChanged):
		return exitConflict
	case slices.ContainsFunc(trustErrors, is), errors.As(err, &problems) && problems.Trust():
		return exitTrust
	case errors.As(err, new(*release.Refusal)), errors.As(err, &problems):
		return exitRefused
	case errors.As(err, new(*signing.FormatError)):
		return exitTrust
	case is(manifest.ErrVersion) && !is(manifest.ErrShape):
		return exitUsage
	}
	return exitFailed
}

// hintFor finds the remedy for an error.
func hintFor(err error) string {
	var own *hinted
	var refusal *release.Refusal
	var format *signing.FormatError
	var conflict *channels.ConflictError
	switch {
	case errors.As(err, &own):
		return own.hint
	case errors.As(err, &refusal) && refusal.Mend != "":
		return refusal.Mend
	case errors.As(err, &conflict):
		return "`tsmon channel log " + conflict.Channel + "` shows it; run the command again if it is still wanted"
	case errors.As(err, &format) && format.Mend != "":
		return format.Mend
	case errors.As(err, new(*usageError)):
		return "--help shows flags and examples"
	}
	for _, h := range hints {
		if errors.Is(err, h.is) {
			return h.hint
		}
	}
	if errors.As(err, new(*net.OpError)) {
		return "check the address and the network"
	}
	return ""
}

// failure is how --json shapes an error, on stderr.
type failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Code  int    `json:"code"` // exit code
}

// report writes an error for people, or as JSON, and returns the exit code.
func (a *app) report(err error) int {
	if errors.As(err, new(*silent)) {
		return exitCode(err)
	}
	f := failure{Error: text(err), Hint: hintFor(err), Code: exitCode(err)}
	if a.json {
		data, _ := json.Marshal(f) // three plain fields
		fmt.Fprintf(a.stderr, "%s\n", data)
		return f.Code
	}
	fmt.Fprintf(a.stderr, "error: %s\n", f.Error)
	if f.Hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", f.Hint)
	}
	return f.Code
}

func text(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return oneLine(strings.TrimSpace(cmp.Or(err.Error(), "unknown error")))
}

// silent is an error whose findings were printed as the command's result.
type silent struct{ error }

func (e *silent) Unwrap() error { return e.error }
