package apitest

import (
	"fmt"
	"strings"
	"testing"

	"tsmon/store/record"
)

// Int64 returns a pointer, for members that may be null.
func Int64(n int64) *int64 { return &n }

// The menu items whose grants a tenant's settings name.
const (
	saveMenu    = 2
	publishMenu = 3
)

// ImportGrants gives Ana's tenant menus and permissions.
func ImportGrants(tb testing.TB, w *World) {
	tb.Helper()
	err := w.Records.Import(tb.Context(), w.Ana.Schema, record.Content{
		Menus: []record.Menu{
			{ID: 1, Name: "Inicio", Icon: "home", Path: "/inicio", Status: true},
			{ID: saveMenu, Name: "Diagramas", Icon: "edit", Path: "/diagramas", Status: true},
			{ID: publishMenu, Name: "Notificaciones", Icon: "bell", Path: "/notificaciones", Status: false},
		},
		Permissions: []record.Permission{
			{ID: 1, Menu: saveMenu, Profile: Int64(7), Status: true},
			{ID: 2, Menu: publishMenu, Profile: Int64(7), Status: false},
			{ID: 3, Menu: publishMenu, User: Int64(1), Status: true}, // the user's row overrides the profile's
			{ID: 4, Menu: saveMenu, Profile: Int64(8), Status: true},
			{ID: 5, Menu: saveMenu, User: Int64(2), Status: false},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Export returns all that the records hold of a tenant, as JSON.
func Export(tb testing.TB, w *World, schema string) string {
	tb.Helper()
	return string(Must[[]byte](tb)(Encode(Must[record.Content](tb)(w.Records.Export(tb.Context(), schema)))))
}

// WriteNetwork writes time series of a small water network for both tenants.
func WriteNetwork(tb testing.TB, w *World) {
	tb.Helper()
	now := w.Clock.Now().UnixMilli()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for i, level := range []float64{2, 4, 6} {
		line("tanque,sitio=norte nivel=%v,caudal-1=%v %d", level, level*10, now-int64(3-i)*60_000)
	}
	line(`tanque,sitio=sur nivel=5 %d`, now-90_000)
	line(`bomba estados_0=true,arranques=41i,texto="en marcha" %d`, now-30_000)
	line(`bomba estados_1=false %d`, now-30_000)
	line(`presión\ red entrada=3.5,"ñandú"=2 %d`, now-3*3600_000) // past the shortest range
	line(`viejo valor=9 %d`, now-20*24*3600_000)
	w.Write(tb, w.Ana.TsName, b.String())
	w.Write(tb, w.Otro.TsName, fmt.Sprintf("tanque,sitio=norte nivel=777 %d\n", now-60_000))
}

// FormNivel is a varsTs of form A.
const FormNivel = `{"measurement":"tanque","field":"nivel"}`

// Item returns an item of a batch, with further members.
func Item(id int, members, varsTs string) string {
	if members != "" {
		members += ","
	}
	return fmt.Sprintf(`{"dataTs":{"id":%d,"name":"v","unit":"m",%s"varsTs":%s}}`, id, members, varsTs)
}
