package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/release/library"
	"tsmon/store/object"
)

// probeKey is the object that is written to test the store. It is not deleted but replaced by
// each run. No channel, release or server shows it.
const probeKey = "staged/doctor/check.json"

var probeAttributes = object.Attributes{ContentType: "application/json", CacheControl: "no-store"}

// storageArea tests what a publish needs from the store.
type storageArea struct{ *patient }

func (p storageArea) examine(ctx context.Context, n *notes) {
	n.at(p.config.Storage)
	if !strings.HasPrefix(p.config.Storage, "s3:") {
		if _, err := os.Stat(p.config.Storage); errors.Is(err, fs.ErrNotExist) {
			if err := tryFolder(p.config.Storage); err != nil {
				n.failed(fmt.Errorf("there is no such folder, and it can't be created: %w", err), "correct storage (TSMON_STORAGE), or create the folder as a user who may")
				return
			}
			n.warn("check storage (TSMON_STORAGE); if it is right, create the folder with mkdir -p, then run `tsmon doctor` again", "there is no such folder yet; the first publish creates it")
			return
		}
	} else if p.endpointClock(ctx, n) {
		return
	}
	data, err := p.writeProbe(ctx)
	switch {
	case errors.Is(err, errOtherBytes):
		n.fail("use a store that is consistent: what was written has to be read from then on", "%v", err)
		return
	case errors.Is(err, errReadOnly):
		n.warn("to publish with them, give them the rights of a CI job (release/README.md, Give each the rights that it needs)",
			"these credentials may read and not publish, as those of a server or a reader")
		p.protection(ctx, n)
		return
	case err != nil:
		n.failed(err, checkStorage)
		return
	}
	n.ok("writes, and reads what was written; %s (%d bytes) stays, since tsmon deletes nothing here", probeKey, len(data))
	if err := object.CheckConditions(ctx, p.store, probeKey, data, probeAttributes); err != nil {
		n.failed(err, checkStorage)
	} else {
		n.ok("honours conditional writes, so that of two publishers one wins")
	}
	p.listing(ctx, n)
	p.protection(ctx, n)
}

// tryFolder reports whether a missing folder can be created, by creating and removing another
// one in the nearest folder above it.
func tryFolder(folder string) error {
	above := folder
	for _, err := os.Lstat(above); errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above); _, err = os.Lstat(above) {
		above = filepath.Dir(above)
	}
	made, err := os.MkdirTemp(above, ".tsmon-doctor-*")
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "create a folder in", Path: above, Err: cause.Err}
	}
	if err != nil {
		return err
	}
	return os.Remove(made)
}

// skews above which the clock is reported: S3 refuses requests at 15 minutes.
const (
	oddSkew = 30 * time.Second
	badSkew = 10 * time.Minute
)

// endpointClock compares the clock with the Date of the S3 server's answers. It
// reports whether they differ so much that nothing else works.
func (p storageArea) endpointClock(ctx context.Context, n *notes) (bad bool) {
	u, err := url.Parse(p.config.Storage)
	if err != nil || u.Query().Get("endpoint") == "" {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, u.Query().Get("endpoint"), nil)
	if err != nil {
		return false
	}
	response, err := p.http.Do(request)
	if err != nil {
		return false // the store's own error says more
	}
	response.Body.Close()
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return false
	}
	return clock(n, p.App.Now().Sub(date))
}

// clock reports by how much this machine's clock is ahead of the store's.
func clock(n *notes, ahead time.Duration) (bad bool) {
	ahead = ahead.Round(time.Second)
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	switch skew := ahead.Abs(); {
	case skew > badSkew:
		n.fail(library.MendClock, "this machine's clock is %v %s the store's; S3 refuses requests that are 15 minutes off", skew, way)
		return true
	case skew > oddSkew:
		n.warn(library.MendClock, "this machine's clock is %v %s the store's", skew, way)
	default:
		n.ok("the clocks of this machine and of the store agree")
	}
	return false
}

var (
	errOtherBytes = errors.New("the store returned different bytes than were just written")
	errReadOnly   = errors.New("the store may be read and not written")
)

// writeProbe writes new content to the probe and reads it back. Another
// examination may be doing the same.
func (p storageArea) writeProbe(ctx context.Context) (data []byte, err error) {
	for range 5 {
		data, err = p.writeOnce(ctx)
		if !errors.Is(err, object.ErrChanged) {
			break
		}
	}
	return data, err
}

func (p storageArea) writeOnce(ctx context.Context) ([]byte, error) {
	before, err := p.store.Stat(ctx, probeKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	data, err := json.Marshal(map[string]string{"about": "written by tsmon doctor", "who": p.App.Who(), "nonce": cli.RandomText()})
	if err != nil {
		return nil, err
	}
	written, err := p.store.Swap(ctx, probeKey, before.ETag, data, probeAttributes)
	if errors.Is(err, fs.ErrPermission) && strings.HasPrefix(p.config.Storage, "s3:") {
		return nil, errReadOnly
	}
	if err != nil {
		return nil, err
	}
	read, info, err := object.ReadAll(ctx, p.store, probeKey, object.MaxSwap)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(read, data):
		return data, nil
	case info.ETag != written.ETag && info.ETag != before.ETag:
		return nil, object.ErrChanged
	}
	return nil, errOtherBytes
}

// protection reports whether a bucket keeps overwritten or deleted objects of the log.
func (p storageArea) protection(ctx context.Context, n *notes) {
	store, ok := p.store.(object.Protector)
	if !ok {
		return
	}
	got, err := store.Protection(ctx, "log/")
	switch days := int(got.Kept.Hours() / 24); {
	case errors.Is(err, fs.ErrPermission):
		n.ok("whether the bucket keeps versions of log/ is not known: these credentials may not ask")
	case err != nil:
		n.failed(err, checkStorage)
	case !got.Versions:
		n.warn("switch on versions (`mc version enable ALIAS/BUCKET`), or make the bucket with object lock", "the bucket keeps no versions of log/: what somebody overwrites there is lost, who may write can do so")
	case days == 0:
		n.ok("keeps versions of what is overwritten or deleted in log/; without object lock, who may delete versions can remove them")
	default:
		n.ok("keeps versions of what is overwritten or deleted in log/, and lets nobody remove them for %s (object lock)", cli.Count(days, "day", "days"))
	}
}

const checkStorage = "check storage, and the credentials and their rights"

// listing tests whether an object that was just written is listed.
func (p storageArea) listing(ctx context.Context, n *notes) {
	for info, err := range p.store.List(ctx, "staged/doctor/", "") {
		switch {
		case errors.Is(err, fs.ErrPermission):
			n.fail("allow the credentials to list the bucket", "%v", err)
			return
		case err != nil:
			n.failed(err, checkStorage)
			return
		case info.Key == probeKey:
			n.ok("lists what was written")
			return
		}
	}
	n.fail("use a store whose listings are consistent, such as MinIO or S3", "an object that was just written is not listed")
}
