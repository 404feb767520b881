package cli

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
	"tsmon/channels/fault"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Exit codes, as `tsmon help` lists them.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitRefused  = 3
	ExitConflict = 4
	ExitTrust    = 5
)

// ErrTerminated is the cause of a context that was ended by SIGTERM, not by SIGINT.
var ErrTerminated = errors.New("asked to stop")

type coded struct {
	error
	code int
}

func (e *coded) Unwrap() error { return e.error }

// Usage makes err end with ExitUsage: a flag, an argument or the configuration is wrong.
func Usage(err error) error { return &coded{err, ExitUsage} }

// Usagef is Usage with a new error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Refuse makes err end with ExitRefused: nothing was written.
func Refuse(err error) error { return &coded{err, ExitRefused} }

type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// Given makes err end with ExitUsage if it says that a file does not exist. It is for files named
// by arguments, flags or settings.
func Given(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return Usage(err)
	}
	return err
}

// WithHint adds the hint that is shown below an error. The outermost one wins.
func WithHint(err error, hint string) error { return &hinted{err, hint} }

// printed is an error that the command's output already shows.
type printed struct{ error }

func (e *printed) Unwrap() error { return e.error }

// Printed sets the exit code by err without a message: the result on stdout
// shows what is wrong.
func Printed(err error) error { return &printed{err} }

type reworded struct {
	error
	text string
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.error }

// Reword replaces the message of err and keeps its exit code.
func Reword(err error, format string, args ...any) error {
	return &reworded{err, fmt.Sprintf(format, args...)}
}

// trustErrors are the errors that end with ExitTrust.
var trustErrors = []error{
	signing.ErrUntrustedKey, signing.ErrNotBuiltIn, signing.ErrSignature, signing.ErrUnbound, signing.ErrBound,
	signing.ErrPassword, signing.ErrLegacy, signing.ErrSSH, library.ErrStored, approval.ErrNoKey, channels.ErrUnsigned, channels.ErrHistory,
}

// hints are the hints for errors without one of their own, most specific first.
var hints = []struct {
	is   error
	hint string
}{
	{context.Canceled, "run the same command again to complete it"},
	{signing.ErrPassword, "set TAURI_SIGNING_PRIVATE_KEY_PASSWORD, or type the password when asked"},
	{signing.ErrUntrustedKey, "compare `tsmon keys show` with trusted_keys and with plugins.updater.pubkey in tauri.conf.json"},
	{signing.ErrNotBuiltIn, "sign with the key that the installed version has, or publish a bridge release first: `tsmon keys rotate --to FILE` plans that"},
	{signing.ErrSignature, "the file was changed after it was signed (code-signed, notarised, rebuilt): sign it again with `tsmon release sign`"},
	{signing.ErrUnbound, "sign again with `tsmon release sign --version V BUNDLE…`; or accept it with --allow-unbound, or with allow_unbound: true for the channel in tsmon.yaml for a while; strict applications refuse it"},
	{signing.ErrBound, "give every bundle the signature that was made for this version and target"},
	{signing.ErrLegacy, "sign again with `tsmon release sign`, which hashes the bundle first"},
	{object.ErrNoStore, "check storage; create a bucket with the store's own tools, such as mc mb"},
	{object.ErrFull, "make room in the store, then run the same command again"},
	{object.ErrUnavailable, "check that the endpoint in storage is up and reachable, then run the same command again"},
	{object.ErrCorrupt, "run the same command again; if it fails again, the store or the network corrupts data"},
	{object.ErrUnconditional, "use a store that honours If-None-Match on PUT, such as MinIO or S3"},
	{object.ErrChanged, "somebody else keeps moving the channel: run the same command again"},
	{fs.ErrPermission, "check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and their rights, or the permissions of the folder"},
	{channels.ErrName, "`tsmon channel list` shows the channels of the store"},
	{ErrNoRecords, "`tsmon tenant create` creates the first tenant and the store; TSMON_RECORDS or TSMON_DATA sets the location"},
	{ErrNoSeries, "`tsmon tenant create` creates the store; TSMON_SERIES_URL or TSMON_DATA sets the location"},
	{record.ErrNotFound, "`tsmon tenant list` shows the tenants, `tsmon user list SCHEMA` their users"},
	{record.ErrConflict, "put both diagrams into the file, or give the object another ID"},
	{record.ErrName, "a schema name has lower-case letters, digits and underscores"},
	{record.ErrUnavailable, "check that the database in server.records (TSMON_RECORDS) is up and reachable, then run the same command again"},
	{series.ErrNoDatabase, "`tsmon tenant create` creates the database of a tenant; `tsmon tenant list` shows them"},
	{series.ErrUnavailable, "check that the server in server.series (TSMON_SERIES_URL) is up and reachable, then run the same command again"},
	{object.ErrClock, library.MendClock},
	{channels.ErrFuture, "`tsmon channel verify CHANNEL` says what to do"},
	{channels.ErrLog, "`tsmon channel repair CHANNEL` repairs it, with --bundle FILE for each lost object of which you have a copy; `tsmon channel verify CHANNEL` shows what is wrong"},
	{updater.ErrTimeout, "check the address and the network"},
	{updater.ErrStatus, "check the address: a server answers there, but not with this file"},
	{updater.ErrSize, "check the address: the bundle there is larger than the released one; `tsmon channel verify CHANNEL` checks the storage"},
	{updater.ErrNoRelease, "check the addresses: every endpoint answered, but none with a release"},
	{manifest.ErrNotJSON, "the updater stops here and asks no further endpoint: serve JSON, or a status outside 2xx"},
	{manifest.ErrShape, "`tsmon manifest validate URL` names every deviation"},
	{fs.ErrNotExist, "check the path"},
	{manifest.ErrVersion, "write MAJOR.MINOR.PATCH, such as 1.3.0"},
	{manifest.ErrFormat, "publish a bundle of its type, or let the application ask the server at an address that ends with ?bundle_type={{bundle_type}}, where it is offered no other type"},
	{manifest.ErrTarget, "publish a bundle for this platform, or check --target and --bundle-type"},
}

// ExitCode returns the exit code for an error.
func ExitCode(err error) int {
	var own *coded
	var problems manifest.Problems
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case errors.As(err, &own):
		return own.code
	case is(release.ErrConfig), is(approval.ErrSeveral), is(approval.ErrShort), is(bundle.ErrNoFile), is(channels.ErrName), is(record.ErrName):
		return ExitUsage
	case is(record.ErrExists), is(record.ErrConflict), is(object.ErrClock):
		return ExitRefused
	case is(release.ErrProbe):
		return ExitFailed
	case errors.As(err, new(*channels.ConflictError)), is(object.ErrChanged), is(record.ErrStale), is(approval.ErrStale):
		return ExitConflict
	case slices.ContainsFunc(trustErrors, is), errors.As(err, &problems) && problems.Trust():
		return ExitTrust
	case errors.As(err, new(*release.Refusal)), errors.As(err, &problems):
		return ExitRefused
	case errors.As(err, new(*signing.FormatError)):
		return ExitTrust
	case is(manifest.ErrVersion) && !is(manifest.ErrShape) && !is(channels.ErrLog):
		return ExitUsage
	}
	return ExitFailed
}

// HintFor returns the hint for an error, empty if there is none.
func HintFor(err error) string {
	var (
		own      *hinted
		refusal  *release.Refusal
		format   *signing.FormatError
		conflict *channels.ConflictError
		broken   *fault.Fault
	)
	switch {
	case errors.As(err, &own):
		return own.hint
	case errors.As(err, &refusal) && refusal.Mend != "":
		return refusal.Mend
	case errors.As(err, &conflict):
		return "`tsmon channel log " + conflict.Channel + "` shows it; if you still want the move, run the command again"
	case errors.As(err, &format) && format.Mend != "":
		return format.Mend
	case errors.As(err, &broken):
		return upkeep.MendLog(err, broken.Channel)
	case errors.Is(err, fs.ErrPermission) && errors.As(err, new(*fs.PathError)):
		return "check the permissions of the file or folder, and which user runs tsmon"
	}
	for _, h := range hints {
		if errors.Is(err, h.is) {
			return h.hint
		}
	}
	if usage, ok := errors.AsType[*coded](err); ok && usage.code == ExitUsage {
		return "--help shows flags and examples"
	}
	if errors.As(err, new(*net.OpError)) {
		return "check the address and the network"
	}
	return ""
}

// Failure is an error on stderr with --json.
type Failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Code  int    `json:"code"` // exit code
}

// report writes an error for people, or as JSON, and returns the exit code.
func (a *App) report(err error) int {
	if errors.As(err, new(*printed)) {
		return ExitCode(err)
	}
	f := Failure{Error: text(err), Hint: HintFor(err), Code: ExitCode(err)}
	if a.JSON {
		data, _ := json.Marshal(f) // three plain fields
		fmt.Fprintf(a.Stderr, "%s\n", data)
		return f.Code
	}
	fmt.Fprintf(a.Stderr, "error: %s\n", f.Error)
	if f.Hint != "" {
		fmt.Fprintf(a.Stderr, "hint: %s\n", f.Hint)
	}
	return f.Code
}

func text(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return OneLine(strings.TrimSpace(cmp.Or(err.Error(), "unknown error")))
}
