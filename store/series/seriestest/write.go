package seriestest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/store/series"
)

func replace(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.0, time.Minute, "a", "b", "c", "d"))
	f.write(t, sample("m", "f", 2.0, time.Minute, "c", "d", "a", "b"), sample("m", "g", 5.0, time.Minute, "a", "b", "c", "d"))
	f.wantNumber(t, series.Want{Key: key("m", "f"), Aggregate: series.Sum}, 2)
	f.wantLast(t, key("m", "g"), 5, at(time.Minute))
}

// writeMany writes a batch that a store may split. The later of two values with the same time
// must win wherever they are in the batch. A refused batch must leave nothing behind.
func writeMany(t *testing.T, f *fixture) {
	var batch []series.Sample
	want := map[series.Key]figures{}
	for i := range 6000 {
		k := key(fmt.Sprint("site", i%40), "f")
		batch = append(batch, sample(k.Measurement, k.Field, float64(i/40), time.Duration(i/40%50)*time.Minute))
		want[k] = figures{} // set below
	}
	for k := range want { // the last of three rounds: 100 to 149
		want[k] = figures{124.5, 149, 100, 124.5 * 50}
	}
	wantError(t, f.store.Write(t.Context(), f.database, append(slices.Clip(batch), sample("site7", "f", "text", time.Second))), series.ErrKind)
	if fields := f.fields(t); len(fields) > 0 {
		t.Errorf("a batch that was refused left %v", fields)
	}
	f.write(t, batch...)
	f.wantFigures(t, 0, want)
}

func kindConflict(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.0, time.Minute), sample("m", "b", true, time.Minute), sample("n", "b", 1.0, time.Minute))
	for _, s := range []series.Sample{
		sample("m", "f", true, time.Second), sample("m", "f", int64(1), time.Second), sample("m", "f", "x", time.Second),
		sample("m", "b", 1.0, time.Second, "another", "tag"),
	} {
		wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{s}), series.ErrKind)
	}
	wantError(t, f.store.Write(t.Context(), f.database,
		[]series.Sample{sample("new", "f", 1.0, time.Second), sample("new", "f", true, time.Second)}), series.ErrKind)
	f.wantFigures(t, 0, map[series.Key]figures{key("m", "f"): {1, 1, 1, 1}, key("m", "b"): {1, 1, 1, 1}, key("n", "b"): {1, 1, 1, 1}})
}

func fields(t *testing.T, f *fixture) {
	f.write(t, series.Sample{Measurement: "m", Time: Clock, Tags: map[string]string{"tag": "x"},
		Fields: map[string]any{"f": 1.0, "i": int64(1), "b": true, "t": "x"}}, sample("ñ 1", "f", true, 1))
	want := map[series.Key]series.Kind{
		key("m", "f"): series.Float, key("m", "i"): series.Integer, key("m", "b"): series.Boolean, key("m", "t"): series.Text,
		key("ñ 1", "f"): series.Boolean,
	}
	if got := f.fields(t); !maps.Equal(got, want) {
		t.Errorf("fields %v", got)
	}
}

// badNames checks that invalid names are refused everywhere.
func badNames(t *testing.T, f *fixture) {
	for _, name := range []string{"", "_internal", "_", "a\x00b", "\x00", "a\xffb", "\xc3", strings.Repeat("x", 257)} {
		for _, k := range []series.Key{key(name, "f"), key("m", name)} {
			wantError(t, errorOf(f.store.Current(t.Context(), f.database, []series.Want{lastOf("m", "f"), {Key: k}})), series.ErrName)
			wantError(t, errorOf(f.store.Series(t.Context(), f.database, []series.Range{{Key: k, Start: at(time.Hour), Stop: Clock, Every: 1}})), series.ErrName)
			wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{sample(k.Measurement, k.Field, 1.0, 0)}), series.ErrName)
		}
	}
	for _, name := range []string{"", "_internal", "a/b", "../a", "a b", "a\"b", "a;b", "a\x00", "a\nb", "-a", ".a", "a.rollups", strings.Repeat("x", 65)} {
		for method, call := range f.calls() {
			if err := call(t.Context(), name); !errors.Is(err, series.ErrName) {
				t.Errorf("%s of the database %q: %v", method, name, err)
			}
		}
		wantError(t, f.store.Create(t.Context(), name), series.ErrName)
	}
}

func badSamples(t *testing.T, f *fixture) {
	good := sample("good", "f", 1.0, time.Minute)
	many := sample("m", "f", 1.0, 0)
	many.Tags = map[string]string{}
	for i := range 65 {
		many.Tags[strings.Repeat("x", i+1)] = "1"
	}
	for name, c := range map[string]struct {
		bad  series.Sample
		want error
	}{
		"no field":             {series.Sample{Measurement: "m", Time: Clock}, series.ErrInvalid},
		"no time":              {series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}}, series.ErrInvalid},
		"too late":             {sample("m", "f", 1.0, -235*365*24*time.Hour), series.ErrInvalid},
		"not a number":         {sample("m", "f", math.NaN(), 0), series.ErrInvalid},
		"infinite":             {sample("m", "f", math.Inf(-1), 0), series.ErrInvalid},
		"too large":            {sample("m", "f", 1.1e300, 0), series.ErrInvalid},
		"an int":               {sample("m", "f", 1, 0), series.ErrInvalid},
		"nil":                  {sample("m", "f", nil, 0), series.ErrInvalid},
		"text not UTF-8":       {sample("m", "f", "\xff", 0), series.ErrInvalid},
		"text too long":        {sample("m", "f", strings.Repeat("x", 1<<16+1), 0), series.ErrInvalid},
		"too many tags":        {many, series.ErrInvalid},
		"newline":              {sample("m\nx", "f", 1.0, 0), series.ErrName},
		"newline in field":     {sample("m", "f\nx", 1.0, 0), series.ErrName},
		"escape":               {sample("m\x1b", "f", 1.0, 0), series.ErrName},
		"comment":              {sample("#m", "f", 1.0, 0), series.ErrName},
		"last backslash":       {sample(`m\`, "f", 1.0, 0), series.ErrName},
		"backslash and comma":  {sample("m", `f\,g`, 1.0, 0), series.ErrName},
		"two backslashes":      {sample("m", `f\\g`, 1.0, 0), series.ErrName},
		"field time":           {sample("m", "time", 1.0, 0), series.ErrName},
		"tag time":             {sample("m", "f", 1.0, 0, "time", "1"), series.ErrName},
		"tag without name":     {sample("m", "f", 1.0, 0, "", "1"), series.ErrName},
		"tag without value":    {sample("m", "f", 1.0, 0, "a", ""), series.ErrName},
		"newline in tag":       {sample("m", "f", 1.0, 0, "a", "b\nm f=2"), series.ErrName},
		"backslash ending tag": {sample("m", "f", 1.0, 0, "a", `b\`), series.ErrName},
		"tag not UTF-8":        {sample("m", "f", 1.0, 0, "a", "\xff"), series.ErrName},
		"tag too long":         {sample("m", "f", 1.0, 0, "a", strings.Repeat("x", 257)), series.ErrName},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{good, c.bad}), c.want)
		})
	}
	f.wantMissing(t, key("good", "f"), key("m", "f"))
}

// Writable has odd names that must be writable and readable.
var Writable = []string{
	"caudal año", "presión-1", "a.b", "a,b", "a=b", "a, b=c", ` lead`, "trail ", "'", `"`, `""`, `a"b`, `"a"`, `a'b`, "`", "$m", "$1", "a;b",
	`a\b`, `\a`, `C:\new\table`, "/a/", "*", ".*", "--", "/* a */", "a#b", "select", "from", "value", "f::float", "{x}", "[x]", "%s", "?1",
	`m"; DROP DATABASE x; --`, `m" WHERE 1=1; DROP MEASUREMENT "m`, `'); DROP TABLE points; --`, "日本語", "🚰", "a\u00a0b", "é", "e\u0301",
	"a_", "A", "a", "true", "1", "1i", "time2", "name", strings.Repeat("x", 256), strings.Repeat("ñ", 128),
}

// beyondLimits writes samples that the adapter can't store, each together with a good one.
func beyondLimits(t *testing.T, f *fixture) {
	good := sample("m", "f", 1.0, time.Minute)
	for _, name := range append([]string{"a,b", "a/b"}, Writable...) {
		if !f.limits.takes(name) {
			wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{good, sample(name, "f", 1.0, time.Minute)}), series.ErrName)
		}
	}
	if !f.limits.Since.IsZero() {
		old := good
		old.Time = f.limits.Since.Add(-1)
		wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{good, old}), series.ErrInvalid)
	}
	if f.limits.Integer != 0 {
		wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{good, sample("m", "i", f.limits.Integer+1, time.Minute)}), series.ErrInvalid)
	}
	for _, name := range Writable {
		if !f.limits.hasColumn(name) {
			wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{good, sample("m", name, 1.0, time.Minute)}), series.ErrName)
		}
	}
	if f.limits.TagsApart {
		wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{good, sample("n", "f", 1.0, time.Minute, "f", "12")}), series.ErrName)
	}
	f.wantMissing(t, key("m", "f"))
}

// writableNames uses each name as measurement, field, tag and tag value, and checks that the
// same value is read back.
func writableNames(t *testing.T, f *fixture) {
	var samples []series.Sample
	var wants []series.Want
	for i, name := range Writable {
		m, value := name, name
		if !f.limits.takes(name) {
			m = fmt.Sprint("m", i)
		}
		if !f.limits.hasColumn(name) {
			name = fmt.Sprint("f", i)
		}
		samples = append(samples, sample(m, "f", float64(i), time.Minute), sample("m", name, float64(i), time.Minute),
			sample(m, name, float64(i), time.Minute, "t"+name[:min(len(name), 200)], value))
		wants = append(wants, lastOf(m, "f"), lastOf("m", name), lastOf(m, name), series.Want{Key: key(m, name), Aggregate: series.Mean})
	}
	wants[0].Aggregate = series.Max
	f.write(t, samples...)
	for i, v := range f.current(t, wants...) {
		if !v.Found || v.Number != float64(i/4) {
			t.Errorf("%s is %+v, not %d", wants[i].Key, v, i/4)
		}
	}
	for i, name := range Writable {
		res := f.series(t, series.Range{Key: wants[4*i+3].Key, Start: at(time.Hour), Stop: Clock, Every: time.Hour})[0]
		if len(res.Points) != 1 || res.Points[0].Number != float64(i) {
			t.Errorf("the series of %q is %+v", name, res)
		}
	}
	got := f.fields(t)
	for _, w := range wants {
		if got[w.Key] != series.Float {
			t.Errorf("%s is of kind %s", w.Key, got[w.Key])
		}
	}
}

// hostileNames asks for names that try to break out of a query and were never written.
func hostileNames(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.5, time.Minute), sample("m", "b", true, time.Minute))
	names := append([]string{
		`\`, `\\`, `m\`, `m\"`, `m\\"; DROP MEASUREMENT m; --`, "m\n", "m\nDROP", "m\r\n", "\t", "m\x01", "#m", "\u2028", "\u202e",
		`m"; DROP DATABASE "` + f.database + `"; --`, `"."autogen"."m`, `"` + f.database + `"."autogen"."m`, `m") FROM "m`,
		`f") FROM "m"; DROP MEASUREMENT "m"; SELECT last("f`, `' OR 1=1; --`, `\"; DROP MEASUREMENT m`, "m; DELETE FROM m", "/.*/", "$p0", "$0",
		`","x"],[0,"m","f`, `"]]`, `{"identifier":"m"}`, `\u006d`,
	}, Writable...)
	var keys []series.Key
	for _, name := range names {
		keys = append(keys, key(name, "f"), key("m", name), key(name, name))
	}
	f.wantMissing(t, keys...)
	f.wantLast(t, key("m", "f"), 1.5, at(time.Minute))
	f.wantFigures(t, 0, map[series.Key]figures{key("m", "b"): {1, 1, 1, 1}})
}
