package channels

import (
	"fmt"
	"runtime"
	"testing"

	"tsmon/channels/journal"
)

// TestDecodeAll: entries that are decoded side by side, most of them with the releases of
// the one before, are found as good or bad as each is alone.
func TestDecodeAll(t *testing.T) {
	var raw [][]byte
	for i := range 300 {
		e := entry(Publish, fmt.Sprintf("1.%d.0", i/7), "", "")
		e.Version, e.Sequence = e.Release.Version, uint64(i+1)
		if i%3 == 0 {
			e.Rollout = &Rollout{Version: "2.0.0", Steps: []int{5}, Percent: 5, Release: entry(Publish, "2.0.0", "", "").Release}
		}
		switch (i / 4) % 8 { // four in a row with the same fault
		case 1:
			e.Release.Record = "no digest"
		case 3:
			e.Release.Platforms = map[string]Bundle{"linux-x86_64": {Path: "../out"}}
		case 5:
			e.Rollout = &Rollout{Version: "2.0.0", Steps: []int{5}, Percent: 5}
			e.Rollout.Release.Version = "2.0.0"
		}
		data, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		switch i % 31 {
		case 5:
			data = data[:len(data)/2]
		case 6:
			data = []byte{}
		}
		raw = append(raw, data)
	}
	good, bad := 0, 0
	for i, got := range decodeAll(raw) {
		if len(raw[i]) == 0 {
			if got.hash != "" || got.err != nil {
				t.Errorf("entry %d, which is missing: %q, %v", i, got.hash, got.err)
			}
			continue
		}
		want, err := decodeEntry(raw[i])
		if got.hash != journal.Hash(raw[i]) || fmt.Sprint(got.err) != fmt.Sprint(err) || got.entry.Sequence != want.Sequence {
			t.Errorf("entry %d: %v, alone %v", i, got.err, err)
		}
		if err == nil {
			good++
		} else {
			bad++
		}
	}
	if good < 100 || bad < 50 {
		t.Errorf("%d good and %d bad entries prove little", good, bad)
	}
}

// BenchmarkSpan decodes and checks 2,000 entries, of which each, or every tenth, has
// another release:
//
//	go test -run '^$' -bench Span -cpu 1,2 ./channels
func BenchmarkSpan(b *testing.B) {
	for _, moves := range []int{1, 10} {
		b.Run(fmt.Sprintf("moves=%d", moves), func(b *testing.B) { benchmarkSpan(b, moves) })
	}
}

func benchmarkSpan(b *testing.B, moves int) {
	log := &Log{Channel: "stable"}
	var raw [][]byte
	for i := range 2000 {
		e := log.Next(entry(Publish, fmt.Sprintf("1.%d.0", i/moves), "", ""))
		data, err := e.encode()
		if err != nil {
			b.Fatal(err)
		}
		raw = append(raw, data)
		log.Entries, log.head = append(log.Entries, e), journal.Hash(data)
	}
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		longer, gaps, err := extension{Log: &Log{Channel: "stable"}}.span(raw)
		if err != nil || len(gaps) > 0 || longer.End() != log.End() {
			b.Fatal(err)
		}
	}
}
