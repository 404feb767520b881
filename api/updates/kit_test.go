package updates_test

import "time"

// What the interface promises.
const (
	clientHeader = "X-Tsmon-Client"
	cohortHeader = "X-Tsmon-Cohort"
	writeTime    = 30 * time.Second
)
