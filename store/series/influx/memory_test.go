package influx

import (
	"testing"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
)

// TestMemoryOvertaken: a write that overtakes an answer must not be forgotten, nor its key
// count as missing.
func TestMemoryOvertaken(t *testing.T) {
	k := series.Key{Measurement: "m", Field: "f"}
	keys := []series.Key{k}
	m := new(Store).memory("d")
	_, writes, ok := m.recall(keys, seriestest.Clock)
	if ok {
		t.Error("an empty memory knows the kinds")
	}
	m.wrote(map[series.Key]series.Kind{k: series.Boolean})
	m.learn(map[series.Key]series.Kind{}, seriestest.Clock, writes)
	m.lost(k, seriestest.Clock, writes)
	if kinds, _, ok := m.recall(keys, seriestest.Clock); !ok || kinds[k] != series.Boolean {
		t.Errorf("the kinds are %v, %t", kinds, ok)
	}
	if _, ok := m.rung(k, seriestest.Clock); !ok {
		t.Error("the key is taken for missing")
	}
	m.lost(k, seriestest.Clock, m.count())
	if _, ok := m.rung(k, seriestest.Clock); ok {
		t.Error("the key is not known to be missing")
	}
	m.wrote(map[series.Key]series.Kind{k: series.Boolean})
	if _, ok := m.rung(k, seriestest.Clock); !ok {
		t.Error("the key is missing after a write")
	}
	m.learn(map[series.Key]series.Kind{}, seriestest.Clock, m.count())
	if kinds, _, _ := m.recall(keys, seriestest.Clock); kinds[k] != 0 {
		t.Errorf("a field that is gone is known as %s", kinds[k])
	}
}
