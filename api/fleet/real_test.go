package fleet_test

import (
	"testing"

	"tsmon/api/apitest"
)

// TestReal runs tests on MinIO, PostgreSQL, InfluxDB and Mosquitto, which the others
// run on the embedded back ends.
func TestReal(t *testing.T) {
	apitest.OnRealServers(t, map[string]func(*testing.T, *apitest.World){
		"adoption":                testAdoption,
		"a rollout halts itself":  testHaltsItself,
		"a release never starts":  testNeverStarts,
		"a release installs late": testInstallsLate,
		"a sampled adoption":      testSampledAdoption,
		"a history":               testHistory,
		"a clock that is ahead":   testClockAhead,
	})
}
