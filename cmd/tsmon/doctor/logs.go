package doctor

import (
	"context"
	"errors"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release/upkeep"
)

// standing is the state of a channel's log.
type standing struct {
	log *channels.Log // nil if it can't be read
	err error         // why it can't be read or trusted
	// where and mend are empty unless the log is at fault.
	where, mend string
}

// readStanding reads the log of a channel and compares it with what servers have seen, if their
// records can be reached.
func (p *patient) readStanding(ctx context.Context, name string) (s standing) {
	r := channels.Repository{Store: p.store, Trust: p.trust, Thorough: true}
	log, err := r.Load(ctx, name)
	s.err = err
	switch {
	case errors.Is(err, fault.ErrBare) || errors.Is(err, fault.ErrStrangers):
		s.where, s.mend = "operators", upkeep.MendLog(err, name)
	case errors.Is(err, channels.ErrLog):
		s.where, s.mend = fault.Of(err, name).Object, upkeep.MendLog(err, name)
	}
	if err != nil {
		return s
	}
	s.log = log
	seen, err := cli.Seen(ctx, p.config, name)
	if err != nil || log.Head() == nil {
		return s // what is wrong with the records is found elsewhere
	}
	if err := log.Continues(seen); err != nil && (p.trust[name].Operators == nil || !log.Accepts(seen)) {
		s.err, s.where, s.mend = err, fault.Of(err, name).Object, upkeep.MendHistory(name, seen)
	}
	return s
}

// sound reports whether a channel's log can be trusted and its manifest matches the log.
func (p *patient) sound(name string, shown []byte) bool {
	s := p.standings[name]()
	if s.err != nil || s.log.Head() == nil {
		return s.err == nil
	}
	_, ok := s.log.Views(false)[0].Shows(shown)
	return ok
}
