package demo

import "math"

// Flows are in l/s during the step before the moment, volumes in m³, levels and
// heads in m, heights in m above the axis of the pumps.

const (
	reservoirArea   = 2500.0 // m²
	reservoirBottom = 1.2    // height
	usualLevel      = 7.2
	usualIntake     = 67.0 // l/s
	maxIntake       = 160.0

	tankBottom = 56.0 // height
	lip        = .3   // height above the full level at which a tank overflows
	lost       = .02  // share of the pumped water that leaks from the main

	closedHead = 78.0  // head of a pump against a closed valve
	pumpLoss   = .0065 // of head, times the pump's flow squared
	mainLoss   = .0008 // of head, times the main's flow squared
	bestFlow   = 48.0  // at which a pump is most efficient
	efficiency = .76   // at bestFlow
	metreBar   = 1 / 10.2

	usualChlorine = 1.25        // after the dosing, mg/l
	bulkDecay     = .025 / hour // of chlorine in a tank, 1/s
)

// moved returns the volume of a flow in one step.
func moved(flow float64) float64 { return flow * step / 1000 }

type reservoir struct{ volume, in, out float64 }

func (r *reservoir) level() float64 { return r.volume / reservoirArea }

// tank belongs to the zone with the same index.
type tank struct {
	volume, in, out float64
	limit           float64 // highest flow through the inlet
	calling         bool    // for water, until it is full enough
	overflowing     bool
	chlorine        float64 // mg/l
}

type station struct {
	flow, power    float64 // sums of all pumps; power in kW
	pumps          [3]pump
	energy, volume float64 // since midnight, kWh
}

type pump struct {
	on          bool
	flow, power float64
	starts      int64 // since midnight
}

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

// hour returns the local time of day in hours.
func (n *Network) hour() float64 { return float64((n.at+utcOffset)%day) / hour }

// night reports whether electricity is cheap.
func (n *Network) night() bool {
	return n.hour() < 5 || n.hour() >= 22
}

// stuck reports whether the float valve of tank k fails to close, as it does for a
// while in some nights, so that the tank overflows.
func (n *Network) stuck(k int) bool {
	local := n.at + utcOffset
	since := local%day - 200*minute
	return since >= 0 && since < 70*minute && hash(uint64(seedStuck+k), local/day)%7 == 0
}

// lead returns the pump that starts first, a different one every morning.
func (n *Network) lead() int { return int((n.at + utcOffset - 5*hour) / day % 3) }

// openInlets sets the demand and the inlet limit of each tank for this step, and returns the
// number of pumps to run.
func (n *Network) openInlets() (running int) {
	night := n.night()
	from, to := .62, .85 // of the full volume
	if night {
		from, running = .985, 1
	}
	if night || n.hour() >= 21 { // nearly night: keep the pumps running
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

// capacity returns the flow at which the pumps' head equals the lift and the losses in the main.
func (n *Network) capacity(running int) float64 {
	lift := n.tankHeight() - n.reservoir.level() - reservoirBottom
	count := float64(running)
	return count * math.Sqrt((closedHead-lift)/(pumpLoss+mainLoss*count*count))
}

// tankHeight returns the mean height of the water in the tanks.
func (n *Network) tankHeight() float64 {
	sum := 0.0
	for k := range n.tanks {
		sum += n.tanks[k].volume / zones[k].area
	}
	return tankBottom + sum/float64(len(n.tanks))
}

// fillTanks distributes a pumped flow, less the leaks, among the tanks by their zones' demand. It
// returns the flow that the pumps deliver, which is lower than pumped if the inlets limit it.
func (n *Network) fillTanks(pumped float64) float64 {
	for k := range n.tanks {
		n.tanks[k].in = 0
	}
	rest, taken := pumped*(1-lost), 0.0
	for range n.tanks { // each round fills a tank up to its limit, or distributes the rest
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

// move applies the flows of a step. arriving is the chlorine of the inflow.
func (t *tank) move(z *zone, arriving float64) {
	t.chlorine += step * (t.in/1000/max(t.volume, 1)*(arriving-t.chlorine) - bulkDecay*t.chlorine)
	t.volume += moved(t.in - t.out)
	most := z.area * (z.full + lip)
	t.overflowing = t.volume > most
	t.volume = min(t.volume, most)
}

// move applies the flows of a step. The intake's gate slowly restores the usual
// level.
func (r *reservoir) move(at int64, out float64) {
	slow := (usualLevel - r.level()) * reservoirArea * 1000 / (6 * hour)
	r.in = min(max(0, usualIntake*(1+.08*noise(seedIntake, at, 3*hour))+slow), maxIntake)
	r.out = out
	r.volume += moved(r.in - r.out)
}

// run distributes a flow among a number of pumps, beginning with the leading one.
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

func head(flow float64) float64 { return closedHead - pumpLoss*flow*flow }

func (s *station) midnight() {
	s.energy, s.volume = 0, 0
	for i := range s.pumps {
		s.pumps[i].starts = 0
	}
}
