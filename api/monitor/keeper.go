package monitor

import (
	"context"
	"time"

	"tsmon/api/monitor/times"
	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

const (
	keepInterval = time.Hour
	keepTime     = 30 * time.Minute // for one database
)

// keeper applies the tenants' retention to their time-series databases every hour, also if
// nobody writes to them. It also deletes old audit rows and uploads.
type keeper struct {
	Options
	loop web.Loop
}

func (k *keeper) work(ctx context.Context) {
	k.keepAll(ctx)
	k.forget(ctx, "audit rows", k.KeepAudits, k.forgetAudits)
	k.forget(ctx, "uploads", k.KeepUploads, k.forgetUploads)
}

// keepAll goes through all tenants that have a retention. Several servers may do so at
// once.
func (k *keeper) keepAll(ctx context.Context) {
	tenants, err := k.Records.Tenants(ctx)
	if err != nil {
		return // /readyz says so
	}
	for _, t := range tenants {
		if t.Settings.Retention == 0 || ctx.Err() != nil {
			continue
		}
		if err := k.keep(ctx, t); err != nil && ctx.Err() == nil {
			k.Log.ErrorContext(ctx, "values are not kept as the retention says", "tenant", t.Schema, "error", err)
		}
	}
}

func (k *keeper) keep(ctx context.Context, t record.Tenant) error {
	zone, err := times.ZoneOf(t.Settings.TimeZone)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	return k.Series.Keep(ctx, t.TsName, series.Keeping{Retention: time.Duration(t.Settings.Retention), Zone: zone})
}

// forget deletes what is older than a time, unless that is 0.
func (k *keeper) forget(ctx context.Context, what string, kept time.Duration, f func(ctx context.Context, before time.Time) (int64, error)) {
	if kept == 0 {
		return
	}
	working, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	switch n, err := f(working, k.Now().Add(-kept)); {
	case err != nil && ctx.Err() == nil:
		k.Log.ErrorContext(ctx, "old "+what+" were not deleted", "error", err)
	case n > 0:
		k.Log.InfoContext(ctx, "old "+what+" were deleted", "count", n)
	}
}

func (k *keeper) forgetAudits(ctx context.Context, before time.Time) (all int64, err error) {
	for {
		n, err := k.Records.ForgetAudits(ctx, before)
		if all += n; n == 0 || err != nil {
			return all, err
		}
	}
}

// uploadsAtOnce are deleted with one call.
const uploadsAtOnce = 1000

func (k *keeper) forgetUploads(ctx context.Context, before time.Time) (n int64, err error) {
	var old []string
	for found, err := range k.Objects.List(ctx, uploadFolder, "") {
		if err != nil {
			return n, err
		}
		if found.ModTime.Before(before) {
			old = append(old, found.Key)
		}
		if len(old) == uploadsAtOnce {
			if err := k.Objects.Delete(ctx, old...); err != nil {
				return n, err
			}
			n, old = n+uploadsAtOnce, old[:0]
		}
	}
	if len(old) == 0 {
		return n, nil
	}
	return n + int64(len(old)), k.Objects.Delete(ctx, old...)
}
