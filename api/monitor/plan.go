package monitor

import (
	"crypto/sha256"
	"reflect"
	"sync"
	"time"

	"tsmon/api/web"
	"tsmon/store/series"
)

// plan is a decoded batch.
type plan struct {
	readings map[string]reading // by id
	wants    []series.Want      // of all of them, each once
	places   map[series.Want]int
	problems problems
}

// add adds a reading. If another reading has the same id, neither has a value.
func (p *plan) add(id string, r reading) {
	first, ok := p.readings[id]
	if ok && !reflect.DeepEqual(first, r) {
		p.miss(id, "the id stands for different things")
		return
	}
	p.readings[id] = r
}

// miss adds a variable that can't have a value.
func (p *plan) miss(id, problem string) {
	p.readings[id] = reading{}
	p.problems.add(id, problem)
}

// lay lists what has to be queried. It fails if that is too much.
func (p *plan) lay() error {
	for _, reading := range p.readings {
		for _, want := range reading.wants() {
			if _, ok := p.places[want]; !ok {
				p.places[want] = len(p.wants)
				p.wants = append(p.wants, want)
			}
		}
	}
	if len(p.wants) > maxWants {
		return web.Invalid("the batch needs %d series, at most %d are allowed", len(p.wants), maxWants)
	}
	return nil
}

// Bounds of the cached plans.
const (
	maxPlanned = 64 << 10 // bytes of one batch's body
	maxPlans   = 1 << 20  // bytes of all bodies; a plan takes up to thirty times its body
)

// plans caches batches by their bodies: a view sends the same one again and again, and
// decoding takes longer than the rest. The bound is in bytes, not in entries, because
// the size of a plan depends on its body.
type plans struct {
	mu    sync.Mutex
	known map[planKey]*plan
	size  int // bytes of the bodies
}

type planKey struct {
	body   [sha256.Size]byte
	window time.Duration
}

// find returns the plan of a body, as read decodes it.
func (p *plans) find(body []byte, window time.Duration, read func() (*plan, error)) (*plan, error) {
	key := planKey{sha256.Sum256(body), window}
	p.mu.Lock()
	found, ok := p.known[key]
	p.mu.Unlock()
	if ok {
		return found, nil
	}
	found, err := read()
	if err != nil || len(body) > maxPlanned {
		return found, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[key]; ok {
		return found, nil // somebody else was faster
	}
	if p.size += len(body); p.size > maxPlans || p.known == nil {
		p.known, p.size = map[planKey]*plan{}, len(body)
	}
	p.known[key] = found
	return found, nil
}
