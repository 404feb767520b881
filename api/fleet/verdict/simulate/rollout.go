package simulate

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"tsmon/api/fleet/verdict"
)

const (
	tick     = 5 * time.Second // between looks
	hour     = int(time.Hour / tick)
	day      = 24 * hour
	horizon  = 21 * day // a rollout that is held for longer is given up
	toReport = hour / 6 // a failure is reported within ten minutes
)

// marks are the ages of waiting clients in ticks.
var marks = func() (marks [verdict.Marks]int) {
	for k, age := range verdict.MarkAges {
		marks[k] = int(age / tick)
	}
	return marks
}()

// fleet is how the clients of a rollout behave. Each asks once an hour and fetches
// what it is offered.
type fleet struct {
	clients int
	fails   float64 // share for which the release fails, of those that are not away
	late    bool    // they install when the application is quit, within a day
	away    float64 // share that fetches it and is not seen again
	dead    bool    // the release does not start and reports nothing
}

// moment is what happens between two looks.
type moment struct {
	fetched, healthy, failing int32
	kept                      int32 // clients that ask again with the old version, less those that cease to
	waiting, aged             [verdict.Marks]int32
}

// fetches is how many clients have fetched the release from a moment on.
type fetches struct {
	from    int
	clients int64
}

// run is one rollout in progress. It can be used again.
type run struct {
	fleet
	random  *rand.Rand
	moments []moment
	busy    []uint64 // bits of the moments in which something happens
	last    int      // moment from which on nothing new can be learned
	entered int      // clients in the steps so far
	fetches []fetches
	reached [verdict.Marks]int // of fetches: those that have come to each age
}

// enter lets a step's clients in. What becomes of each is drawn when it enters.
func (r *run) enter(now, percent int) {
	share := r.clients * percent / 100
	for ; r.entered < share; r.entered++ {
		fetch, takes := r.draw(hour, hour) // takes until it asks with the new version
		fetch += now
		fails, gone, installs := r.fate()
		switch {
		case gone:
			takes = horizon
		case r.late:
			takes = installs
		case fails:
			takes = 0 // a failure does not wait for the next question
		}
		r.at(fetch).fetched++
		if fails {
			takes += installs % toReport
			r.at(fetch+takes).failing++
			for k, age := range marks {
				if takes <= age {
					r.at(fetch + age).aged[k]++
				}
			}
		} else if !gone {
			r.at(fetch+takes).healthy++
		}
		if takes > hour && !gone {
			r.at(fetch+hour).kept++
			r.at(fetch+takes).kept--
		}
		for k, age := range marks {
			r.last = max(r.last, fetch+age) // from the first age that it does not reach on, it holds no news
			if takes <= age {
				break
			}
			r.at(fetch + age).waiting[k]++
		}
	}
}

// fate draws whether the release fails for a client, whether the client is never seen again,
// and when its application is quit.
func (r *run) fate() (fails, gone bool, quit int) {
	chance, quit := r.draw(1<<30, day)
	gone = r.dead || float64(chance) >= (1-r.away)*(1<<30)
	return !gone && float64(chance) < r.fails*(1-r.away)*(1<<30), gone, quit
}

// oneByOne simulates the same clients one after another and without steps: the outcome of each
// is known before the next one fetches the release. Clients that are never seen again count as
// waiting.
func (r *run) oneByOne(by rule) ending {
	var now seen
	for range r.clients {
		r.draw(hour, hour) // when they ask does not matter
		fails, gone, _ := r.fate()
		switch {
		case gone:
			now.Waiting++
		case fails:
			now.Failing++
		default:
			now.Healthy++
		}
		if fails && by.halts(&now) { // nothing else makes a halt more likely
			return r.end(&now, ending{halted: true, percent: 100})
		}
	}
	return r.end(&now, ending{percent: 100})
}

// draw returns two independent numbers, from 0 to below a and b.
func (r *run) draw(a, b int) (int, int) {
	u := r.random.Uint64()
	return int(u >> 32 * uint64(a) >> 32), int(u & (1<<32 - 1) * uint64(b) >> 32)
}

func (r *run) at(when int) *moment {
	if when >= len(r.moments) {
		words := max(2*len(r.busy), when/64+1)
		r.moments = append(r.moments, make([]moment, 64*words-len(r.moments))...)
		r.busy = append(r.busy, make([]uint64, words-len(r.busy))...)
	}
	r.busy[when/64] |= 1 << (when % 64)
	return &r.moments[when]
}

// next returns the first busy moment from t on, but no later than the limit.
func (r *run) next(t, limit int) int {
	for ; t < limit && t/64 < len(r.busy); t = (t/64 + 1) * 64 {
		if rest := r.busy[t/64] >> (t % 64); rest != 0 {
			return min(limit, t+bits.TrailingZeros64(rest))
		}
	}
	return limit
}

// seen is what the guard can know at a moment.
type seen struct {
	verdict.Sums
	kept int64 // as the old rule counted them
}

// rule decides on a rollout.
type rule interface {
	halts(s *seen) bool
	// mayStep is asked when the time for the next step has come.
	mayStep(s *seen, reach int64) bool
}

type ending struct {
	halted   bool
	stalled  bool  // at a step that was never followed by another
	percent  int   // last step
	fetched  int64 // clients that have it
	outcomes int64 // clients whose outcome had been seen
	sums     verdict.Sums
}

// roll plays a rollout to its end, or to the halt.
func (r *run) roll(steps []int, every time.Duration, by rule) ending {
	r.clear()
	var now seen
	step, began, wait := 0, 0, max(1, int(every/tick))
	r.enter(0, steps[0])
	for t := 0; ; {
		r.look(&now, t)
		if by.halts(&now) {
			return r.end(&now, ending{halted: true, percent: steps[step]})
		}
		limit := (t/hour + 1) * hour // one looks each hour, even if nothing happens
		if step == len(steps)-1 {
			if t >= r.last {
				return r.end(&now, ending{percent: steps[step]})
			}
			t = r.next(t+1, min(limit, r.last))
			continue
		}
		due := began + wait
		switch {
		case t > began+horizon:
			return r.end(&now, ending{stalled: true, percent: steps[step]})
		case t >= due && by.mayStep(&now, int64(r.entered)):
			step, began = step+1, t
			r.enter(t+1, steps[step])
		case t < due:
			limit = min(limit, due)
		}
		t = r.next(t+1, limit)
	}
}

func (r *run) clear() {
	for t := r.next(0, len(r.moments)); t < len(r.moments); t = r.next(t+1, len(r.moments)) {
		r.moments[t] = moment{}
	}
	clear(r.busy)
	r.last, r.entered, r.fetches, r.reached = 0, 0, r.fetches[:0], [verdict.Marks]int{}
}

func (r *run) end(s *seen, e ending) ending {
	e.fetched, e.outcomes, e.sums = s.Handed(), s.Decided(), s.Sums
	return e
}

// look updates what the guard knows.
func (r *run) look(s *seen, t int) {
	var m moment
	if t < len(r.moments) {
		m = r.moments[t]
	}
	s.Healthy += int64(m.healthy)
	s.Failing += int64(m.failing)
	s.Waiting += int64(m.fetched - m.healthy - m.failing)
	s.kept += int64(m.kept)
	if m.fetched > 0 {
		r.fetches = append(r.fetches, fetches{t, s.Handed()})
	}
	for k, age := range marks {
		s.Ages[k].Waiting += int64(m.waiting[k])
		s.Ages[k].Failing += int64(m.aged[k])
		for ; r.reached[k] < len(r.fetches) && r.fetches[r.reached[k]].from <= t-age; r.reached[k]++ {
			s.Ages[k].Reached = r.fetches[r.reached[k]].clients
		}
	}
}
