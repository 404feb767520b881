package monitor

import (
	"context"
	"log/slog"
	"time"

	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

const (
	keepInterval = time.Hour
	keepTime     = 30 * time.Minute // for one database
)

// keeper has time-series databases keep values as long as their tenants' settings say:
// what they do each hour for that goes on where nobody writes.
type keeper struct {
	records record.Store
	series  series.Store
	log     *slog.Logger
	loop    web.Loop
}

// watch keeps values until close.
func (k *keeper) watch(ctx context.Context) { k.loop.Start(ctx, keepInterval, k.keepAll) }

// keepAll goes through all tenants that have a retention. Several servers may do so at
// once.
func (k *keeper) keepAll(ctx context.Context) {
	tenants, err := k.records.Tenants(ctx)
	if err != nil {
		return // /readyz says so
	}
	for _, t := range tenants {
		if t.Settings.Retention == 0 || ctx.Err() != nil {
			continue
		}
		if err := k.keep(ctx, t); err != nil && ctx.Err() == nil {
			k.log.ErrorContext(ctx, "values are not kept as the retention says", "tenant", t.Schema, "error", err)
		}
	}
}

func (k *keeper) keep(ctx context.Context, t record.Tenant) error {
	zone, err := ZoneOf(t.Settings.TimeZone)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	return k.series.Keep(ctx, t.TsName, series.Keeping{Retention: time.Duration(t.Settings.Retention), Zone: zone})
}

func (k *keeper) close() { k.loop.Close() }
