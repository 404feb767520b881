package monitor_test

import (
	"strings"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/store/object"
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

// TestKeeperForgets has a server delete old audit rows and uploads, and nothing else.
func TestKeeperForgets(t *testing.T) {
	w := apitest.Embedded(t)
	w.KeepAudits, w.KeepUploads = 48*time.Hour, 48*time.Hour
	for _, ago := range []int{9, 3, 1} {
		if err := w.Records.Audit(t.Context(), record.Audit{Schema: "viejo", Time: time.Now().AddDate(0, 0, -ago)}); err != nil {
			t.Fatal(err)
		}
	}
	store := func(key string) {
		t.Helper()
		if _, err := w.Objects.Create(t.Context(), key, strings.NewReader("x"), 1, object.Attributes{}); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(prefix string) (n int) {
		t.Helper()
		for _, err := range w.Objects.List(t.Context(), prefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	store("uploads/a.png")
	store("releases/1.0.0/a")
	server := api.New(w.Options)
	server.Watch(t.Context())
	rows := func() int {
		return len(apitest.Must[[]record.Audit](t)(w.Records.LastAudits(t.Context(), "viejo", 10)))
	}
	apitest.Eventually(t, "the old rows to go", func() bool { return rows() == 1 })
	server.Close()
	if n := keys("uploads/"); n != 1 {
		t.Errorf("%d uploads, one is new", n)
	}
	w.Clock.Move(72 * time.Hour)
	server = api.New(w.Options)
	defer server.Close()
	server.Watch(t.Context())
	apitest.Eventually(t, "the upload to go", func() bool { return keys("uploads/") == 0 })
	if keys("releases/") != 1 {
		t.Error("a release was deleted")
	}
}
