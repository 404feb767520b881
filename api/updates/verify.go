package updates

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"tsmon/api/updates/alarm"
	"tsmon/api/updates/recorded"
	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/release/library"
	"tsmon/store/object"
)

// record reads the record of a release, verifies it, and raises or clears its alarm. The errors
// are the store's, or errUnverified. fs.ErrNotExist also stands for the mark of a discarded
// release, and for a record that another one has replaced. named is false if no known log
// contains the version: then only the signatures of the bundles vouch for the record.
func (h *Heads) record(ctx context.Context, key string) (d *web.Document, named bool, err error) {
	data, info, err := object.ReadAll(ctx, h.Objects, key, library.MaxRecord)
	version, fault := path.Base(path.Dir(key)), err
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h.alarms.Clear(key)
		return nil, false, err
	case err == nil && path.Base(key) != "release.json" && recorded.Discarded(data):
		h.alarms.Clear(key)
		return nil, false, fmt.Errorf("%s: %w", key, fs.ErrNotExist)
	case err == nil:
		fault = recorded.Check(data, version, h.Keys)
	case !errors.Is(err, object.ErrTooLarge):
		return nil, false, err
	}
	if fault == nil {
		var logs []*channels.Log
		for _, c := range *h.known.Load() {
			logs = append(logs, c.log.Load())
		}
		named, fault, err = library.Vouched(ctx, library.Library{Store: h.Objects}, logs, version, library.SumOf(data))
	}
	if fault != nil {
		h.alarms.Raise(key, info.ETag, alarm.Record, fault)
		return nil, false, errUnverified
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		h.alarms.Clear(key)
	}
	return web.NewDocument(data, info), named, err
}

// recheck verifies the records that failed before: those that changed, and each one again after
// standsEvery, because what makes it good may be another object.
func (h *Heads) recheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	for _, key := range h.alarms.Records() {
		info, err := h.Objects.Stat(ctx, key)
		if err == nil && h.alarms.Raised(key, info.ETag, standsEvery) {
			continue
		}
		_, _, err = h.record(ctx, key)
		if err != nil && !errors.Is(err, errUnverified) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
