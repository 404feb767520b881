package monitor_test

import (
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/store/record"
	"tsmon/store/series"
)

// TestKeeper has a server delete what a tenant's retention no longer keeps.
func TestKeeper(t *testing.T) {
	w := apitest.Embedded(t)
	key := series.Key{Measurement: "viejo", Field: "v"}
	now := time.Now()
	for _, ago := range []int{9, 0} {
		s := series.Sample{Measurement: key.Measurement, Fields: map[string]any{key.Field: 1.5}, Time: now.AddDate(0, 0, -ago)}
		if err := w.Series.Write(t.Context(), w.Ana.TsName, []series.Sample{s}); err != nil {
			t.Fatal(err)
		}
	}
	tenants := apitest.Must[[]record.Tenant](t)(w.Records.Tenants(t.Context()))
	for _, tenant := range tenants {
		if tenant.TsName == w.Ana.TsName {
			tenant.Settings.Retention = record.Age(48 * time.Hour)
			if err := w.Records.UpdateTenant(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := api.New(w.Options)
	defer server.Close()
	server.Watch(t.Context())
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := w.Series.CountBefore(t.Context(), w.Ana.TsName, now.AddDate(0, 0, -5))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d values are left", n)
		case <-tick.C:
		}
	}
	values, err := w.Series.Current(t.Context(), w.Ana.TsName, []series.Want{{Key: key}})
	if err != nil || values[0].Number != 1.5 {
		t.Errorf("%+v, %v", values, err)
	}
}
