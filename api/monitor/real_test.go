package monitor_test

import (
	"testing"

	"tsmon/api/apitest"
)

// TestReal runs tests on MinIO, PostgreSQL, InfluxDB and Mosquitto, which the others
// run on the embedded back ends.
func TestReal(t *testing.T) {
	apitest.OnRealServers(t, map[string]func(*testing.T, *apitest.World){
		"login":                                  testLogin,
		"many logins":                            testManyLogins,
		"partner token replaced":                 testTokenReplaced,
		"menus and permissions":                  testMenusAndPermissions,
		"audit":                                  testAudit,
		"hostile diagrams":                       testHostileDiagrams,
		"hostile members of diagrams":            testHostileMembersOfDiagrams,
		"many savers at once":                    testManySavers,
		"a saver that goes away":                 testSaverGoesAway,
		"hostile lines":                          testHostileLines,
		"hostile logins look alike":              testLoginsLookAlike,
		"hostile guesses":                        testGuesses,
		"hostile names of values":                testHostileNames,
		"hostile names of records":               testHostileRecords,
		"hostile names of tenants":               testHostileTenantNames,
		"secrets stay out of the log":            testSecrets,
		"hostile neighbours":                     testHostileNeighbours,
		"hostile neighbours save":                testHostileSaves,
		"hostile tokens":                         testHostileTokens,
		"tokens that ended":                      testEndedTokens,
		"a permission that is missing is no 401": testForbiddenIsNot401,
		"hostile uploads":                        testHostileUploads,
		"hostile files":                          testHostileFiles,
		"hostile file names":                     testHostileFileNames,
		"hostile addresses of files":             testHostileFileAddresses,
		"variables, notifications and charts":    testContents,
		"diagrams":                               testDiagrams,
		"versions of diagrams":                   testSaveVersions,
		"diagrams refused":                       testDiagramsRefused,
		"uploads":                                testUploads,
		"publishing":                             testPublishing,
		"writing lines":                          testWritingLines,
		"current value":                          testCurrentValue,
		"batch":                                  testBatch,
		"batch refused":                          testBatchRefused,
		"bad variables":                          testBadVariables,
		"long answers":                           testLongAnswers,
		"series":                                 testSeries,
		"series refused":                         testSeriesRefused,
		"time text":                              testTimeText,
		"days of the tenant":                     testDays,
		"writes of commands":                     testWritesOfCommands,
	})
}
