package influx

import (
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/servertest"
)

func open(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContract(t *testing.T) {
	server := servertest.StartInfluxDB(t)
	seriestest.Suite(t, func(t *testing.T, now func() time.Time) series.Store {
		return open(t, Options{URL: server.URL, Now: now})
	})
	t.Run("Ladder", func(t *testing.T) { testLadder(t, server) })
	t.Run("OneRequest", func(t *testing.T) { testOneRequest(t, server) })
	t.Run("MixedShards", func(t *testing.T) { testMixedShards(t, server) })
	t.Run("Conflict", func(t *testing.T) { testConflict(t, server) })
	t.Run("Rollups", func(t *testing.T) { testRollups(t, Options{URL: server.URL}) })
	t.Run("TakenBack", func(t *testing.T) { testTakenBack(t, Options{URL: server.URL}) })
	t.Run("HoursGone", func(t *testing.T) { testHoursGone(t, Options{URL: server.URL}) })
	t.Run("OwnRetention", func(t *testing.T) { testOwnRetention(t, Options{URL: server.URL}) })
	t.Run("RollupsDropped", func(t *testing.T) { testRollupsDropped(t, Options{URL: server.URL}) })
	t.Run("Resumes", func(t *testing.T) { testResumes(t, server) })
}

func TestContract2(t *testing.T) {
	server := servertest.StartInfluxDB2(t)
	seriestest.Suite(t, func(t *testing.T, now func() time.Time) series.Store {
		return open(t, Options{URL: server.URL, Org: server.Org, Token: server.Token, Now: now})
	})
	t.Run("Refusals", func(t *testing.T) { testRefusals(t, server) })
	t.Run("Rollups", func(t *testing.T) { testRollups(t, Options{URL: server.URL, Org: server.Org, Token: server.Token}) })
	t.Run("TakenBack", func(t *testing.T) { testTakenBack(t, Options{URL: server.URL, Org: server.Org, Token: server.Token}) })
	t.Run("HoursGone", func(t *testing.T) { testHoursGone(t, Options{URL: server.URL, Org: server.Org, Token: server.Token}) })
	t.Run("OwnRetention", func(t *testing.T) {
		testOwnRetention(t, Options{URL: server.URL, Org: server.Org, Token: server.Token})
	})
	t.Run("RollupsDropped", func(t *testing.T) {
		testRollupsDropped(t, Options{URL: server.URL, Org: server.Org, Token: server.Token})
	})
	t.Run("Upgraded", func(t *testing.T) { testUpgraded(t, server) })
	t.Run("Called", func(t *testing.T) { testCalled(t, server) })
}
