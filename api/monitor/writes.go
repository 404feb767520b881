package monitor

import (
	"context"
	"time"

	"tsmon/api/web"
	"tsmon/store/record"
)

// writesInterval is how often other processes' writes are looked for.
const writesInterval = time.Second

// writes watches for time series that other processes have written.
type writes struct {
	records record.Store
	forget  []func(database string) // called with each database that was written to
	loop    web.Loop

	// Of the loop alone:
	looked bool
	known  map[string]int64 // how often each database was written to
}

// look calls forget with each database that was written to since the last call.
func (w *writes) look(ctx context.Context) {
	found, err := w.records.Writes(ctx)
	if !w.looked { // after an error the next success forgets everything
		w.known, w.looked = found, true
	}
	if err != nil {
		return // /readyz says so
	}
	for database, count := range found {
		if count == w.known[database] {
			continue
		}
		for _, forget := range w.forget {
			forget(database)
		}
	}
	w.known = found
}
