package demo

import "math"

// Flows are in l/s, those of the step that led to the moment; volumes are in m³,
// levels and heads in m, heights above the axis of the pumps.

const (
	reservoirArea   = 2500.0 // m²
	reservoirBottom = 1.2    // height
	usualLevel      = 7.2
	usualIntake     = 67.0 // l/s
	maxIntake       = 160.0

	tankBottom = 56.0 // height
	lip        = .3   // above the full level, where a tank overflows
	lost       = .02  // share of the pumped water that the main leaks

	closedHead = 78.0  // of a pump against a closed valve
	pumpLoss   = .0065 // of head, times the pump's flow squared
	mainLoss   = .0008 // of head, times the main's flow squared
	bestFlow   = 48.0  // where a pump is most efficient
	efficiency = .76   // there
	metreBar   = 1 / 10.2

	usualChlorine = 1.25        // behind the dosing, mg/l
	bulkDecay     = .025 / hour // of chlorine in a tank, 1/s
)

// moved is the volume of a flow in one step.
func moved(flow float64) float64 { return flow * step / 1000 }

type reservoir struct{ volume, in, out float64 }

func (r *reservoir) level() float64 { return r.volume / reservoirArea }

// tank is the tank of the zone of its index.
type tank struct {
	volume, in, out float64
	limit           float64 // flow that the inlet lets in
	calling         bool    // for water, until it has enough
	overflowing     bool
	chlorine        float64 // mg/l
}

type station struct {
	flow, power    float64 // of all pumps, kW
	pumps          [3]pump
	energy, volume float64 // since midnight, kWh
}

type pump struct {
	on          bool
	flow, power float64
	starts      int64 // since midnight
}

// advance takes the network one step further.
func (n *Network) advance() {
	n.at += step
	if (n.at+utcOffset)%day == 0 {
		n.station.midnight()
	}
	running := n.openInlets()
	n.station.run(running, n.fillTanks(n.capacity(running)), n.lead())
	for k := range n.tanks {
		n.tanks[k].move(&zones[k], plantChlorine(n.at))
	}
	n.reservoir.move(n.at, n.station.flow)
}

// hour is the time of the network's day, in hours.
func (n *Network) hour() float64 { return float64((n.at+utcOffset)%day) / hour }

// night reports whether electricity is cheap.
func (n *Network) night() bool {
	return n.hour() < 5 || n.hour() >= 22
}

// stuck reports whether the float valve of tank k stays open although the tank
// is full, which it does for a while in some nights.
func (n *Network) stuck(k int) bool {
	local := n.at + utcOffset
	since := local%day - 200*minute
	return since >= 0 && since < 70*minute && hash(uint64(seedStuck+k), local/day)%7 == 0
}

// lead is the pump that starts first, another one every morning.
func (n *Network) lead() int { return int((n.at + utcOffset - 5*hour) / day % 3) }

// openInlets says what each tank takes in this step, and returns the number of
// pumps that this calls for.
func (n *Network) openInlets() (running int) {
	night := n.night()
	from, to := .62, .85 // of the full volume
	if night {
		from, running = .985, 1
	}
	if night || n.hour() >= 21 { // soon it is: no pump has to stop before
		to = 1
	}
	calls := 0
	for k := range n.tanks {
		t, full := &n.tanks[k], zones[k].fullVolume()
		t.calling = t.volume < from*full || t.calling && t.volume < to*full
		t.out = min(zones[k].at(k, n.at), t.volume*1000/step)
		t.limit = 0
		switch {
		case n.stuck(k):
			t.limit = zones[k].peak()
		case t.calling || night:
			t.limit = max(0, t.out+(full-t.volume)*1000/step)
		}
		if t.calling {
			calls++
		}
	}
	return max(running, calls)
}

// capacity is the flow of a number of pumps, where their curve meets the main's.
func (n *Network) capacity(running int) float64 {
	lift := n.tankHeight() - n.reservoir.level() - reservoirBottom
	count := float64(running)
	return count * math.Sqrt((closedHead-lift)/(pumpLoss+mainLoss*count*count))
}

// tankHeight is the mean height of the water in the tanks.
func (n *Network) tankHeight() float64 {
	sum := 0.0
	for k := range n.tanks {
		sum += n.tanks[k].volume / zones[k].area
	}
	return tankBottom + sum/float64(len(n.tanks))
}

// fillTanks shares what arrives of a pumped flow among the tanks, by their
// zones' demand, and returns the pumped flow that they take: less than there
// could be where the inlets let in no more.
func (n *Network) fillTanks(pumped float64) float64 {
	for k := range n.tanks {
		n.tanks[k].in = 0
	}
	rest, taken := pumped*(1-lost), 0.0
	for range n.tanks { // each round sates a tank, or shares all of the rest
		weights := 0.0
		for k, t := range n.tanks {
			if t.in < t.limit {
				weights += zones[k].demand
			}
		}
		if weights == 0 || rest <= 0 {
			break
		}
		share := rest / weights
		for k := range n.tanks {
			t := &n.tanks[k]
			more := min(share*zones[k].demand, t.limit-t.in)
			t.in += more
			taken += more
		}
		rest = pumped*(1-lost) - taken
	}
	return taken / (1 - lost)
}

// move ends a step, in which water of some chlorine arrived.
func (t *tank) move(z *zone, arriving float64) {
	t.chlorine += step * (t.in/1000/max(t.volume, 1)*(arriving-t.chlorine) - bulkDecay*t.chlorine)
	t.volume += moved(t.in - t.out)
	most := z.area * (z.full + lip)
	t.overflowing = t.volume > most
	t.volume = min(t.volume, most)
}

// move takes in what the intake's gate, which holds the usual level in a slow
// way, lets through.
func (r *reservoir) move(at int64, out float64) {
	slow := (usualLevel - r.level()) * reservoirArea * 1000 / (6 * hour)
	r.in = min(max(0, usualIntake*(1+.08*noise(seedIntake, at, 3*hour))+slow), maxIntake)
	r.out = out
	r.volume += moved(r.in - r.out)
}

// run shares a flow among a number of pumps, the leading one first.
func (s *station) run(running int, flow float64, lead int) {
	if flow == 0 {
		running = 0
	}
	s.flow, s.power = flow, 0
	for i := range s.pumps {
		p := &s.pumps[(lead+i)%len(s.pumps)]
		p.turn(i < running, flow/float64(max(running, 1)))
		s.power += p.power
	}
	s.energy += s.power * step / hour
	s.volume += moved(flow)
}

func (p *pump) turn(on bool, flow float64) {
	if on && !p.on {
		p.starts++
	}
	p.on, p.flow, p.power = on, 0, 0
	if on {
		off := (flow - bestFlow) / 60
		p.flow = flow
		p.power = 9.81 / 1000 * flow * head(flow) / (efficiency * (1 - off*off))
	}
}

// head is what a pump adds at its flow.
func head(flow float64) float64 { return closedHead - pumpLoss*flow*flow }

func (s *station) midnight() {
	s.energy, s.volume = 0, 0
	for i := range s.pumps {
		s.pumps[i].starts = 0
	}
}
