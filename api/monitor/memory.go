package monitor

import (
	"time"

	"tsmon/api/web"
	"tsmon/store/record"
)

// Memory is what a server remembers of its clients and of the records: wrong logins, and
// what is used while the records can't be reached. Servers on the same records that follow
// each other, or run beside each other meanwhile, may share it.
type Memory struct {
	throttle  *web.Throttle
	refusals  *refusals
	sessions  *known[sessionKey, caller]
	names     *known[fieldKey, record.ID]
	variables *known[string, []record.Variable] // by schema
}

// NewMemory returns one that is empty.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		throttle: web.NewThrottle(now), refusals: &refusals{recorded: newKnown[string, struct{}](now, maxRefusedNet)},
		sessions: newKnown[sessionKey, caller](now, maxSessions), names: newKnown[fieldKey, record.ID](now, maxKnownNames),
		variables: newKnown[string, []record.Variable](now, maxKnownLists),
	}
}
