package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
	"tsmon/store/record"
)

// clientsTime bounds how long a command waits for the records of the servers.
const clientsTime = 5 * time.Second

// Seen returns the newest entry of a channel's log that servers have seen, according to the
// records. It is zero if they contain none, or if there are no records on this machine.
func Seen(ctx context.Context, c *config.Config, channel string) (seen channels.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, clientsTime)
	defer cancel()
	err = WithRecords(ctx, c, func(records record.Store) (err error) {
		seen, err = fleet.Histories{Records: records, Store: c.StoreName()}.Seen(ctx, channel)
		return err
	})
	if errors.Is(err, ErrNoRecords) {
		err = nil
	}
	return seen, err
}

// KnownClients counts the clients of channels from the records of tsmon serve. The counts are
// unknown if there are no records, as in most CI jobs, if the records have no clients of the
// channel, or if they can't be read, which is a warning.
type KnownClients struct {
	Config *config.Config
	Now    func() time.Time
	Warn   func(text string) // prints a warning, or logs it on a server
}

// ByVersion counts clients by version.
func (k KnownClients) ByVersion() release.Clients {
	return k.by(func(group record.ClientCount) string { return group.Version })
}

// ByType counts clients by the platform key of the bundle that they were installed from.
func (k KnownClients) ByType() release.Clients {
	return k.by(func(group record.ClientCount) string { return group.Target })
}

func (k KnownClients) by(of func(record.ClientCount) string) release.Clients {
	return func(asked context.Context, channel string) (map[string]int, error) {
		ctx, cancel := context.WithTimeout(asked, clientsTime)
		defer cancel()
		var groups []record.ClientCount
		err := WithRecords(ctx, k.Config, func(records record.Store) (err error) {
			groups, err = records.Clients(ctx, channel, k.Now().Add(-fleet.AdoptionTime))
			return err
		})
		if err != nil && !errors.Is(err, ErrNoRecords) && asked.Err() == nil { // else the caller's context has ended
			k.Warn(fmt.Sprintf("the versions that clients of %s have are unknown: %v", channel, err))
		}
		if err != nil || len(groups) == 0 {
			return nil, nil
		}
		known := map[string]int{}
		for _, group := range groups {
			known[of(group)] += group.Clients
		}
		return known, nil
	}
}
