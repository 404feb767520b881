package updates_test

import (
	"testing"

	"tsmon/api/apitest"
)

// TestReal runs tests on MinIO, PostgreSQL, InfluxDB and Mosquitto, which the others
// run on the embedded back ends.
func TestReal(t *testing.T) {
	apitest.OnRealServers(t, map[string]func(*testing.T, *apitest.World){
		"heads follow the store":  testHeadsFollow,
		"heads outlive the store": testHeadsOutlive,
		"ranges":                  testRanges,
		"offers":                  testOffers,
		"rollout":                 testRollout,
		"story of watersheds":     testWatersheds,
		"story of a bad release":  testBadRelease,
		"story of outages":        testStoreOutages,
		"story of two publishers": testTwoPublishers,
		"forged entries":          testForgedEntries,
		"stolen bucket":           testStolenBucket,
		"the future":              testFuture,
		"attacks":                 testAttacks,
		"nothing forged":          testNothingForged,
		"bad manifests":           testBadManifests,
		"history":                 testHistory,
		"forged followers":        testForgedFollowers,
		"older entries":           testOlderEntries,
		"strange files":           testStrangeFiles,
		"strange channels":        testStrangeChannels,
		"manifest put back":       testManifestPutBack,
		"rings put back":          testRingsPutBack,
	})
}
