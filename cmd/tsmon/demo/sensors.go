package demo

import (
	"math"
	"strconv"
	"time"

	"tsmon/store/series"
)

// set collects the samples of one moment.
type set struct {
	time    time.Time
	samples []series.Sample
}

func (s *set) add(measurement, site string, fields map[string]any) {
	s.samples = append(s.samples, series.Sample{
		Measurement: measurement, Tags: map[string]string{"site": site}, Fields: fields, Time: s.time,
	})
}

// appendSamples appends the samples of the current moment.
func (n *Network) appendSamples(dst []series.Sample) []series.Sample {
	s := &set{time.Unix(n.at, 0).UTC(), dst}
	s.add("embalse", "captacion", map[string]any{
		"nivel":          round(n.reservoir.level(), 3),
		"caudal_entrada": round(3.6*n.reservoir.in, 1), // m³/h, as the next
		"caudal_salida":  round(3.6*n.reservoir.out, 1),
	})
	n.measureStation(s)
	for k := range n.tanks {
		n.measureTank(s, k)
		n.measureZone(s, k)
	}
	n.measureQuality(s)
	return s.samples
}

func (n *Network) measureStation(s *set) {
	const site = "estacion"
	flow := n.station.flow
	suction := (n.reservoir.level()+reservoirBottom)*metreBar - 1e-5*flow*flow
	discharge := n.tankHeight() * metreBar // held by the check valves
	running := 0
	for i, p := range n.station.pumps {
		if p.on {
			running++
			discharge = suction + head(p.flow)*metreBar
		}
		s.add("bomba_"+strconv.Itoa(i+1), site, map[string]any{
			"marcha": p.on, "estados_0": p.on, "arranques": p.starts,
			"caudal": round(p.flow, 2), "potencia": round(p.power, 2),
		})
	}
	s.add("estacion", site, map[string]any{
		"caudal":           round(flow, 2),
		"presion_succion":  round(suction+.005*noise(seedSuction, n.at, 20), 3),
		"presion_descarga": round(discharge+.02*noise(seedDischarge, n.at, 20), 3),
		"energia_dia":      round(n.station.energy, 2),
		"volumen_dia":      round(n.station.volume, 1),
	})
	s.add("tablero", site, map[string]any{
		"tension": round(442-1.8*float64(running)+2.5*noise(seedVoltage, n.at, 10*minute), 1),
	})
	n.measureRemote(s, site, 0)
}

// measureRemote measures the battery of a remote unit, which the sun charges.
func (n *Network) measureRemote(s *set, site string, index int) {
	sun := max(0, math.Sin(math.Pi*(n.hour()-6)/12))
	s.add("remota", site, map[string]any{
		"bateria": round(12.5+.9*sun+.1*noise(uint64(seedBattery+index), n.at, hour), 2),
	})
}

func (n *Network) measureTank(s *set, k int) {
	t, name := n.tanks[k], "tanque_"+zones[k].name
	s.add(name, name, map[string]any{
		"nivel":          round(t.volume/zones[k].area, 3),
		"volumen":        round(t.volume, 2),
		"caudal_entrada": round(t.in, 2),
		"caudal_salida":  round(t.out, 2),
		"rebose":         t.overflowing,
	})
	n.measureRemote(s, name, k+1)
}

// measureZone measures a zone behind its pressure-reducing valve. The valve raises
// the pressure with the flow, so that the critical point has enough.
func (n *Network) measureZone(s *set, k int) {
	t, z := n.tanks[k], &zones[k]
	load := t.out / z.peak()
	above := (38 + t.volume/z.area) * metreBar
	inlet := min(above-.05, 2.9+.7*load+.03*noise(uint64(seedValve+k), n.at, 30))
	name := "zona_" + z.name
	s.add(name, name, map[string]any{
		"caudal":           round(t.out, 2),
		"presion_entrada":  round(inlet, 3),
		"presion_critica":  round(inlet-.8-.6*load*load, 3),
		"apertura_valvula": round(min(12+58*load/math.Sqrt(above-inlet), 100), 1),
	})
}

// plantChlorine returns the chlorine after the dosing, in mg/l.
func plantChlorine(at int64) float64 {
	return usualChlorine + .1*noise(seedChlorine, at, 5*hour)
}

func (n *Network) measureQuality(s *set) {
	dosing := n.station.flow > 0
	dose := 0.0
	if dosing {
		dose = plantChlorine(n.at) + .35 // of which the water consumes .35 at once
	}
	s.add("dosificador", "estacion", map[string]any{
		"marcha": dosing, "estados_0": dosing, "dosis": round(dose, 2),
	})
	rain := max(0, noise(seedRain, n.at, day)-.4)
	turbidity := .35 + .08*noise(seedTurbidity, n.at, 2*hour) + rain
	s.add("calidad_planta", "estacion", map[string]any{
		"cloro":       round(plantChlorine(n.at)+.01*noise(seedChlorine, n.at, 30), 3),
		"turbidez":    round(turbidity, 3),
		"ph":          round(7.3+.12*noise(seedAcidity, n.at, 8*hour)-.1*rain, 2),
		"temperatura": round(17.5-.6*math.Cos(2*math.Pi*(n.hour()-3)/24)+.8*noise(seedTemperature, n.at, 3*day), 2),
	})
	s.add("calidad_red", "zona_sur", map[string]any{
		"cloro": round(n.farChlorine()+.005*noise(seedNetwork, n.at, 30), 3),
	})
}

// farChlorine returns the chlorine at the far end of the last zone. The lower the
// demand, the longer the water takes to get there.
func (n *Network) farChlorine() float64 {
	const (
		pipes     = 110        // volume, m³
		wallDecay = .06 / hour // 1/s
	)
	t := n.tanks[len(n.tanks)-1]
	residence := pipes * 1000 / max(t.out, 1)
	return t.chlorine * math.Exp(-wallDecay*residence)
}

func round(v float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(v*unit) / unit
}
