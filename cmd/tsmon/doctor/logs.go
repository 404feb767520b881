package doctor

import (
	"context"
	"errors"
	"sync"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release/upkeep"
)

// logs reads the log of each channel once, for all areas.
type logs struct {
	mu  sync.Mutex
	all map[string]*standing
}

// standing is the state of a channel's log.
type standing struct {
	once sync.Once
	log  *channels.Log // nil if it can't be read
	err  error         // why it can't be read or trusted
	// where and mend are empty unless the log is at fault.
	where, mend string
}

// standing reads the log of a channel and compares it with what servers have seen, if their
// records can be reached.
func (p *patient) standing(ctx context.Context, name string) *standing {
	p.logs.mu.Lock()
	if p.logs.all == nil {
		p.logs.all = map[string]*standing{}
	}
	s := p.logs.all[name]
	if s == nil {
		s = &standing{}
		p.logs.all[name] = s
	}
	p.logs.mu.Unlock()
	s.once.Do(func() { p.read(ctx, s, name) })
	return s
}

func (p *patient) read(ctx context.Context, s *standing, name string) {
	r := channels.Repository{Store: p.store, Trust: p.trust, Thorough: true}
	log, err := r.Load(ctx, name)
	if s.err = err; err != nil {
		if errors.Is(err, fault.ErrBare) || errors.Is(err, fault.ErrStrangers) {
			s.where, s.mend = "operators", upkeep.MendLog(err, name)
		} else if errors.Is(err, channels.ErrLog) {
			s.where, s.mend = fault.Of(err, name).Object, upkeep.MendLog(err, name)
		}
		return
	}
	s.log = log
	seen, err := cli.Seen(ctx, p.config, name)
	if err != nil || log.Head() == nil {
		return // what is wrong with the records is found elsewhere
	}
	if err := log.Continues(seen); err != nil && (p.trust[name].Operators == nil || !log.Accepts(seen)) {
		s.err, s.where, s.mend = err, fault.Of(err, name).Object, upkeep.MendHistory(name, seen)
	}
}

// sound reports whether a channel's log can be trusted and its manifest matches the log.
func (p *patient) sound(ctx context.Context, name string, shown []byte) bool {
	s := p.standing(ctx, name)
	if s.err != nil || s.log.Head() == nil {
		return s.err == nil
	}
	_, ok := s.log.Views(false)[0].Shows(shown)
	return ok
}
