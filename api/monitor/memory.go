package monitor

import (
	"time"

	"tsmon/api/web"
	"tsmon/store/record"
)

// Memory is what a server remembers of its clients and of the records: wrong logins, and
// what is used while the records can't be reached. A server and its successor on the same
// records may share it, also while both run.
type Memory struct {
	throttle  *web.Throttle
	refusals  *refusals
	sessions  *known[sessionKey, caller]
	names     *known[fieldKey, record.ID]
	variables *known[string, []record.Variable] // by schema
}

// NewMemory returns an empty Memory.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		throttle: web.NewThrottle(now), refusals: &refusals{recorded: newKnown[string, struct{}](now, maxRefusedNet)},
		sessions: newKnown[sessionKey, caller](now, maxSessions), names: newKnown[fieldKey, record.ID](now, maxKnownNames),
		variables: newKnown[string, []record.Variable](now, maxKnownLists),
	}
}
