package demo_test

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"sync"
	"testing"
	"time"

	"tsmon/cmd/tsmon/demo"
	"tsmon/store/series"
)

// noon of a Monday in the network's time zone.
var noon = time.Date(2026, 3, 9, 17, 0, 0, 0, time.UTC)

// until collects what a network yields.
func until(n *demo.Network, stop time.Time) (samples []series.Sample) {
	for batch := range n.Until(stop) {
		samples = append(samples, batch...)
	}
	return samples
}

// moment is what was measured at one time, by measurement.field; booleans are 1
// and 0. Of a field with several tag sets it has one value.
type moment struct {
	time   time.Time
	values map[string]float64
}

func moments(samples []series.Sample) (all []moment) {
	for _, s := range samples {
		if len(all) == 0 || !all[len(all)-1].time.Equal(s.Time) {
			all = append(all, moment{s.Time, map[string]float64{}})
		}
		for name, value := range s.Fields {
			all[len(all)-1].values[s.Measurement+"."+name] = number(value)
		}
	}
	return all
}

func number(value any) float64 {
	switch v := value.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

// everyStep returns the moments of two days, one for each step.
var everyStep = sync.OnceValue(func() (all []moment) {
	n := demo.New(noon)
	for at := noon; at.Before(noon.AddDate(0, 0, 2)); at = at.Add(time.Minute) {
		all = append(all, moments(until(n, at))...)
	}
	return all
})

// bounds are the possible values by field and kind of measurement.
var bounds = map[string][2]float64{
	"embalse.nivel": {6, 8.5}, "embalse.caudal_entrada": {0, 576}, "embalse.caudal_salida": {0, 500},
	"estacion.caudal": {0, 140}, "estacion.presion_succion": {.4, 1.1}, "estacion.presion_descarga": {5, 9},
	"estacion.energia_dia": {0, 2000}, "estacion.volumen_dia": {0, 8000}, "tablero.tension": {400, 460},
	"bomba.marcha": {0, 1}, "bomba.estados_0": {0, 1}, "bomba.caudal": {0, 70}, "bomba.potencia": {0, 55}, "bomba.arranques": {0, 10},
	"tanque.nivel": {1, 4.8}, "tanque.volumen": {250, 1632}, "tanque.caudal_entrada": {0, 100}, "tanque.caudal_salida": {2, 50}, "tanque.rebose": {0, 1},
	"zona.caudal": {2, 50}, "zona.presion_entrada": {2.5, 4}, "zona.presion_critica": {1.5, 3}, "zona.apertura_valvula": {5, 100},
	"calidad_planta.cloro": {1, 1.5}, "calidad_planta.turbidez": {.1, 2}, "calidad_planta.ph": {6.5, 8.5}, "calidad_planta.temperatura": {12, 22},
	"calidad_red.cloro":  {.3, 1.2},
	"dosificador.marcha": {0, 1}, "dosificador.estados_0": {0, 1}, "dosificador.dosis": {0, 2}, "remota.bateria": {12, 13.8},
}

var numbered = regexp.MustCompile(`^(bomba|tanque|zona)_[a-z0-9]+$`)

// TestBounds: in every season the store accepts each value, and each is possible.
func TestBounds(t *testing.T) {
	for _, start := range []time.Time{noon, noon.AddDate(0, 5, 3), time.Date(2031, 12, 25, 0, 0, 3, 0, time.UTC)} {
		seen := map[string]bool{}
		samples := until(demo.New(start), start.Add(demo.Span))
		for _, sample := range samples {
			if err := series.ValidSample(sample); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range samples {
			for name, value := range s.Fields {
				field := numbered.ReplaceAllString(s.Measurement, "$1") + "." + name
				seen[field] = true
				if v, b := number(value), bounds[field]; v < b[0] || v > b[1] || math.Signbit(v) {
					t.Fatalf("%s: %s.%s is %v, not from %v to %v", s.Time, s.Measurement, name, value, b[0], b[1])
				}
			}
		}
		if len(seen) != len(bounds) {
			t.Errorf("%d fields of %d were measured", len(seen), len(bounds))
		}
	}
}

// TestBalance: a volume changes by the inflow less the outflow, in each step and over days, except
// while a tank overflows.
func TestBalance(t *testing.T) {
	all := everyStep()
	flowed := 0.0 // into the reservoir, all in all
	for i, m := range all[1:] {
		before, v, moved := all[i].values, m.values, m.time.Sub(all[i].time).Seconds()/1000
		arrived := 0.0
		for _, tank := range []string{"tanque_norte", "tanque_centro", "tanque_sur"} {
			in, out := v[tank+".caudal_entrada"], v[tank+".caudal_salida"]
			arrived += in
			grown := v[tank+".volumen"] - before[tank+".volumen"]
			if v[tank+".rebose"] == 0 && math.Abs(grown-(in-out)*moved) > .0101 {
				t.Fatalf("%s: %s grew by %v m³ of %v l/s in and %v out", m.time, tank, grown, in, out)
			}
			if zone := v["zona"+tank[len("tanque"):]+".caudal"]; zone != out {
				t.Fatalf("%s: %s: %v l/s leave the tank, %v reach the zone", m.time, tank, out, zone)
			}
		}
		pumped := v["bomba_1.caudal"] + v["bomba_2.caudal"] + v["bomba_3.caudal"]
		if flow := v["estacion.caudal"]; math.Abs(pumped-flow) > .021 || math.Abs(.98*flow-arrived) > .021 {
			t.Fatalf("%s: pumps %v l/s, station %v, tanks %v", m.time, pumped, flow, arrived)
		}
		flowed += (v["embalse.caudal_entrada"] - v["embalse.caudal_salida"]) * moved / 3.6
		if grown := 2500 * (v["embalse.nivel"] - all[0].values["embalse.nivel"]); math.Abs(grown-flowed) > 3 {
			t.Fatalf("%s: the reservoir grew by %v m³ of %v", m.time, grown, flowed)
		}
	}
}

// TestPumps: each pump starts a few times a day, and rests before it starts again.
func TestPumps(t *testing.T) {
	all := everyStep()
	for _, pump := range []string{"bomba_1", "bomba_2", "bomba_3"} {
		turned, starts, running := all[0].time, 0, 0
		for i, m := range all[1:] {
			before, v := all[i].values, m.values
			on := v[pump+".estados_0"]
			running += int(on)
			if (on == 1) != (v[pump+".potencia"] > 0) || (on == 1) != (v[pump+".caudal"] > 0) || on != v[pump+".marcha"] {
				t.Fatalf("%s: %s: %v", m.time, pump, v)
			}
			if on != before[pump+".estados_0"] {
				if starts++; m.time.Sub(turned) < 2*time.Minute {
					t.Errorf("%s: %s turned after %s", m.time, pump, m.time.Sub(turned))
				}
				turned = m.time
			}
			if counted := v[pump+".arranques"]; counted < before[pump+".arranques"] && m.time.Format("15:04:05") != "05:00:00" {
				t.Errorf("%s: %s counts %v starts before midnight", m.time, pump, counted)
			}
		}
		if share := float64(running) / float64(len(all)); starts < 4 || share < .2 || share > .8 {
			t.Errorf("%s turned %d times and ran %.2f of the time", pump, starts, share)
		}
	}
}

// TestLevels: by day the tanks' levels turn the pumps on and off, by night the tanks are filled.
// Sometimes a tank overflows, and then it is more than full.
func TestLevels(t *testing.T) {
	stop := noon.AddDate(0, 0, 30)
	full := map[string]float64{"tanque_norte": 4.5, "tanque_centro": 4.2, "tanque_sur": 3.8}
	overflows := 0
	for _, m := range moments(until(demo.New(noon), stop)) {
		for tank, full := range full {
			level, local := m.values[tank+".nivel"], m.time.Add(-5*time.Hour).Format("15:04")
			switch {
			case m.values[tank+".rebose"] == 1:
				overflows++
				if math.Abs(level-full-.3) > .002 || local < "03:20" || local > "05:00" {
					t.Errorf("%s: %s overflows at %v", m.time, tank, level)
				}
			case local >= "02:00" && local < "05:00" && level < full-.001:
				t.Errorf("%s: %s is not full, at %v", m.time, tank, level)
			case local > "05:00" && local < "22:00" && level < .5*full:
				t.Errorf("%s: %s is left to run dry: %v", m.time, tank, level)
			}
		}
	}
	if overflows < 5 {
		t.Errorf("%d moments of overflow", overflows)
	}
}

// mean averages a field over the wanted moments.
func mean(t *testing.T, all []moment, field string, wanted func(weekday time.Weekday, hour int) bool) float64 {
	t.Helper()
	sum, count := 0.0, 0
	for _, m := range all {
		if local := m.time.Add(-5 * time.Hour); wanted(local.Weekday(), local.Hour()) {
			sum += m.values[field]
			count++
		}
	}
	if count == 0 {
		t.Fatal("no moment is wanted")
	}
	return sum / float64(count)
}

// TestDemand: people sleep at night and rise later on weekends, offices are
// closed then, and the longer water lies in the pipes the less chlorine it has.
func TestDemand(t *testing.T) {
	all := moments(until(demo.New(noon), noon.Add(demo.Span)))
	workday := func(d time.Weekday) bool { return d != time.Saturday && d != time.Sunday }
	at := func(hour int, work bool) func(time.Weekday, int) bool {
		return func(d time.Weekday, h int) bool { return workday(d) == work && h == hour }
	}
	for _, c := range []struct {
		field      string
		hour       int
		work       bool
		other      int
		otherWork  bool
		atLeast    float64
		explaining string
	}{
		{"zona_norte.caudal", 7, true, 3, true, 3, "morning and night"},
		{"zona_norte.caudal", 7, true, 7, false, 1.3, "early on workdays and weekends"},
		{"zona_norte.caudal", 10, false, 10, true, 1.2, "late on weekends and workdays"},
		{"zona_centro.caudal", 11, true, 11, false, 1.3, "shops on workdays and weekends"},
		{"calidad_red.cloro", 10, true, 4, true, 1.05, "chlorine by day and at night"},
	} {
		more, less := mean(t, all, c.field, at(c.hour, c.work)), mean(t, all, c.field, at(c.other, c.otherWork))
		if more < c.atLeast*less {
			t.Errorf("%s: %s is %.3f and %.3f", c.explaining, c.field, more, less)
		}
	}
	for _, m := range all {
		if m.values["calidad_red.cloro"] >= m.values["calidad_planta.cloro"] {
			t.Fatalf("%s: the network has more chlorine than the plant: %v", m.time, m.values)
		}
	}
}

// TestStarts: networks with different starts have equal values at equal times.
func TestStarts(t *testing.T) {
	stop := noon.Add(demo.Span)
	want := until(demo.New(noon), stop)
	for _, later := range []time.Duration{0, time.Second, 29 * time.Hour, 8*24*time.Hour + 12345*time.Second} {
		t.Run(fmt.Sprint(later), func(t *testing.T) {
			got := until(demo.New(noon.Add(later)), stop)
			rest := want[len(want)-len(got):]
			for i, s := range got {
				if r := rest[i]; s.Measurement != r.Measurement || !s.Time.Equal(r.Time) || !maps.Equal(s.Tags, r.Tags) || !maps.Equal(s.Fields, r.Fields) {
					t.Fatalf("%v\nwant\n%v", s, rest[i])
				}
			}
			if before := len(want) - len(got); before > 0 && want[before-1].Time.After(noon.Add(later)) {
				t.Errorf("it begins after %s", want[before-1].Time)
			}
		})
	}
}

// TestUntil follows a network through its history, some live steps, a pause and
// more steps: the times between sets are those of their age, and none comes twice.
func TestUntil(t *testing.T) {
	n := demo.New(noon.Add(-demo.Span))
	last := noon.Add(-demo.Span)
	for _, c := range []struct {
		stop time.Time
		sets int
	}{
		{noon, 9*24*12 + (24*60 - 1) + 12},
		{noon.Add(demo.Interval), 1},
		{noon.Add(2*demo.Interval - time.Nanosecond), 0},
		{noon.Add(2 * demo.Interval), 1},
		{noon.Add(-time.Hour), 0},
		{noon.Add(time.Hour), 59 + 12}, // a pause
		{noon.Add(time.Hour + demo.Interval), 1},
		{noon.AddDate(0, 0, 2), 23*12 + (24*60 - 1) + 12},
	} {
		sets := moments(until(n, c.stop))
		if len(sets) != c.sets {
			t.Errorf("until %s: %d sets, want %d", c.stop, len(sets), c.sets)
		}
		for _, m := range sets {
			every := 5 * time.Minute
			if age := c.stop.Sub(m.time); age < time.Minute {
				every = demo.Interval
			} else if age < 24*time.Hour {
				every = time.Minute
			}
			if !m.time.Equal(m.time.Truncate(every)) || !m.time.After(last) || m.time.After(c.stop) {
				t.Fatalf("until %s: a set of %s after one of %s", c.stop, m.time, last)
			}
			last = m.time
		}
	}
}

// TestBatches: batches are bounded, and no moment is split.
func TestBatches(t *testing.T) {
	var last time.Time
	batches := 0
	for batch := range demo.New(noon.Add(-demo.Span)).Until(noon) {
		if batches++; len(batch) > 5000 || batch[0].Time.Equal(last) {
			t.Errorf("a batch of %d samples from %s follows one until %s", len(batch), batch[0].Time, last)
		}
		last = batch[len(batch)-1].Time
	}
	if batches < 10 || !last.Equal(noon) {
		t.Errorf("%d batches until %s", batches, last)
	}
}
