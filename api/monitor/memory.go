package monitor

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tsmon/api/web"
	"tsmon/store/record"
)

// Memory is what a server remembers of its clients and of the records: wrong logins, and
// what is used while the records can't be reached. Servers on the same records that follow
// each other, or run beside each other meanwhile, may share it.
type Memory struct {
	throttle  *web.Throttle
	refusals  *refusals
	sessions  *lru.Cache[sessionKey, session]
	names     *known[fieldKey, record.ID]
	variables *known[string, []record.Variable]
}

// NewMemory returns one that is empty.
func NewMemory(now func() time.Time) *Memory {
	sessions, _ := lru.New[sessionKey, session](maxSessions) // fails for sizes below one
	return &Memory{
		throttle: web.NewThrottle(now), refusals: newRefusals(), sessions: sessions,
		names: newKnown[fieldKey, record.ID](now, maxKnownNames), variables: newKnown[string, []record.Variable](now, maxKnownLists),
	}
}
