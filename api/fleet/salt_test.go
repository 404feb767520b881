package fleet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/store/backup"
	"tsmon/store/record"
	"tsmon/store/record/sqlite"
)

// watch returns a server's sightings on a channel that shows 1.0.0, and a function that sends a
// client's request. The test writes the sightings to the records.
func watch(t *testing.T, w *apitest.World, channel string, clients int) (*fleet.Sightings, func(id, network string)) {
	t.Helper()
	log := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), channel))
	in := apitest.Must[fleet.Channel](t)(fleet.ChannelOf(log))
	s := fleet.NewSightings(fleet.Options{
		Records: w.Records, Clients: clients, Series: w.Series, Channels: func() map[string]fleet.Channel { return map[string]fleet.Channel{channel: in} },
		Asks: func() map[string]int64 { return nil }, Registry: prometheus.NewRegistry(), Log: w.Log, Now: w.Now,
	})
	return s, func(id, network string) {
		c := channels.Client{Client: manifest.Client{Target: "linux-x86_64", Version: "1.0.0"}, ID: id}
		s.Asked(t.Context(), channel, in, c, apitest.Must[channels.Answer](t)(in.For(c)), fleet.Client{ID: id, Network: network})
	}
}

func publishOne(t *testing.T, w *apitest.World) (channel string) {
	t.Helper()
	desk := w.Desk(t)
	channel = fmt.Sprint("c", apitest.Number.Add(1))
	desk.Policies[channel] = release.Policy{}
	desk.PublishWith(t, "1.0.0", func(o *release.PublishOptions) { o.Channel = channel })
	return channel
}

// ground returns made-up IDs whose digests begin with a number of zero bits under a guessed salt.
func ground(salt string, bits, count int) (ids []string) {
	for i := 0; len(ids) < count; i++ {
		id := fmt.Sprint("made up ", i)
		sum := sha256.Sum256([]byte(salt + "client\x00" + id))
		if record.Level(bits).Holds(record.ClientID(sum[:16])) {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestGround: clients that are made up without knowing the salt shrink the sample no more than
// as many real clients. With the salt they would leave less than a sixtieth of it.
func TestGround(t *testing.T) {
	const most, real, bits, networks = 200, 300, 8, 40
	levelWith := func(t *testing.T, ids []string) record.Level {
		w := apitest.Embedded(t)
		channel := publishOne(t, w)
		s, ask := watch(t, w, channel, most)
		if err := s.Still(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range real {
			ask(fmt.Sprint("real ", i), fmt.Sprint(i))
		}
		for i, id := range ids {
			ask(id, fmt.Sprint("theirs ", i%networks))
		}
		s.WriteSightings(t.Context())
		return apitest.Must[record.Sample](t)(w.Records.Sample(t.Context(), channel, "")).Level
	}
	var plain []string
	for i := range most * 2 {
		plain = append(plain, fmt.Sprint("plain ", i))
	}
	honest := levelWith(t, plain)
	if honest < 1 || honest > 3 {
		t.Fatalf("the sample of %d clients is at level %d", real+len(plain), honest)
	}
	for _, guess := range []string{"", "tsmon ", "the wrong salt of the test", strings.Repeat("\x00", 32)} {
		if got := levelWith(t, ground(guess, bits, len(plain))); got > honest {
			t.Errorf("made up with the salt %q they move the sample to level %d, others to %d", guess, got, honest)
		}
	}
	if got := levelWith(t, ground("the salt of every test", bits, len(plain))); got < bits {
		t.Errorf("with the salt of the records the sample is at level %d: the test makes IDs up in another way than clients are recorded", got)
	}
}

// TestSaltStays: a client has the same digest on all servers that share the records, and after
// a restart. Without the records the salt is unknown.
func TestSaltStays(t *testing.T) {
	w := apitest.Embedded(t)
	channel := publishOne(t, w)
	for range 3 {
		s, ask := watch(t, w, channel, 100)
		s.Start(t.Context())
		ask("a", "1")
		ask("b", "1")
		s.Close()
	}
	clients := apitest.Must[[]record.ClientCount](t)(w.Records.Clients(t.Context(), channel, time.Time{}))
	if len(clients) != 1 || clients[0].Clients != 2 {
		t.Errorf("two clients of three servers are recorded as %+v", clients)
	}
}

// TestSaltReopened: clients keep their digests when a file of records is closed and opened
// again, and in a backup of it.
func TestSaltReopened(t *testing.T) {
	w, folder := apitest.Embedded(t), t.TempDir()
	channel, path := publishOne(t, w), filepath.Join(folder, "records.db")
	see := func(path string) (salt []byte, clients int) {
		t.Helper()
		records := apitest.Must[*sqlite.Store](t)(sqlite.Open(t.Context(), path, sqlite.Limits{}))
		defer records.Close()
		w.Records = records
		s, ask := watch(t, w, channel, 100)
		s.Start(t.Context())
		ask("a", "1")
		ask("b", "1")
		s.Close()
		for _, c := range apitest.Must[[]record.ClientCount](t)(records.Clients(t.Context(), channel, time.Time{})) {
			clients += c.Clients
		}
		return apitest.Must[[]byte](t)(records.Secret(t.Context(), fleet.SaltName)), clients
	}
	first, _ := see(path)
	again, clients := see(path)
	if !bytes.Equal(first, again) || clients != 2 {
		t.Errorf("reopened: %d clients, the salt %x became %x", clients, first, again)
	}
	var packed bytes.Buffer
	sources := []backup.Source{{Name: "records.db", Path: path}}
	if _, err := backup.Create(t.Context(), &packed, t.TempDir(), w.Now(), sources, nil); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(folder, "restored")
	if _, err := backup.Restore(t.Context(), &packed, t.TempDir(), restored); err != nil {
		t.Fatal(err)
	}
	back, clients := see(filepath.Join(restored, "records.db"))
	if !bytes.Equal(first, back) || clients != 2 {
		t.Errorf("restored: %d clients, the salt %x became %x", clients, first, back)
	}
	if other, clients := see(filepath.Join(folder, "other.db")); bytes.Equal(first, other) || clients != 2 {
		t.Errorf("other records: %d clients, and the salt %x", clients, other)
	}
}

// awayRecords are records that can fail to read and create secrets.
type awayRecords struct {
	record.Store
	away *bool
}

func (a awayRecords) CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error) {
	if *a.away {
		return nil, errors.Join(record.ErrUnavailable, errors.New("away"))
	}
	return a.Store.CreateSecret(ctx, name, value)
}

// TestSaltAway: a server that has never reached its records records no clients, logs that, and
// takes no step. It begins once the records answer.
func TestSaltAway(t *testing.T) {
	w := apitest.Embedded(t)
	channel, away := publishOne(t, w), true
	w.Records = awayRecords{w.Records, &away}
	s, ask := watch(t, w, channel, 100)
	if err := s.Still(t.Context()); !errors.Is(err, record.ErrUnavailable) {
		t.Fatalf("the salt of records that are away: %v", err)
	}
	ask("a", "1")
	s.WriteSightings(t.Context())
	if why, _ := s.Full(channel, "1.0.0"); why == "" {
		t.Error("steps don't wait")
	}
	if !strings.Contains(w.Logged.String(), "sightings of clients can't be recorded") {
		t.Error("the log does not say so")
	}
	away = false
	s.WriteSightings(t.Context())
	ask("a", "1")
	s.WriteSightings(t.Context())
	clients := apitest.Must[[]record.ClientCount](t)(w.Records.Clients(t.Context(), channel, time.Time{}))
	if len(clients) != 1 || clients[0].Clients != 1 {
		t.Errorf("they are recorded as %+v", clients)
	}
	if !strings.Contains(w.Logged.String(), "sightings of clients are recorded again") {
		t.Error("the log does not say that it is over")
	}
}
