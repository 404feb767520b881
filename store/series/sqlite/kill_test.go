package sqlite

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/store/longtest"
	"tsmon/store/series"
)

// killed is a context that kills the process when a statement begins.
type killed struct {
	context.Context
	left *atomic.Int64
}

func (k killed) Done() <-chan struct{} {
	if k.left.Add(-1) < 0 {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {} // until it is dead
	}
	return k.Context.Done()
}

const killAt, killFile = "TSMON_TEST_KILL_AT", "TSMON_TEST_KILL_FILE"

// work is what a store does until it is killed, and then does again.
type work func(context.Context, *Store) error

// isKilled does the work in the process that is to be killed, and reports whether this is it.
func (w work) isKilled(t *testing.T) bool {
	text := os.Getenv(killAt)
	if text == "" {
		return false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(n))
	s := open(t, os.Getenv(killFile), Options{Now: func() time.Time { return present }})
	if err := w(killed{t.Context(), &left}, s); err != nil {
		t.Fatal(err)
	}
	return true
}

// killEach copies the file of a life, lets a process of its own work on the copy, and kills
// that at a statement; then the next copy at the next statement, until one comes to its end:
// each statement in the shares of a long run, else fewer and fewer. After each kill it checks the
// answers, does the work, and checks them again, and that no chunks and so many blocks are left.
func (w work) killEach(t *testing.T, y *years, want int, check func(*testing.T)) {
	var name string
	if err := y.store.file.Writer.QueryRow("SELECT file FROM pragma_database_list").Scan(&name); err != nil {
		t.Fatal(err)
	}
	if err := y.store.Close(); err != nil { // now all is in the one file
		t.Fatal(err)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	share, long := longtest.Chosen(t)
	first, stride := share.Steps(1)
	program, kills, ended := t.Name(), 0, false
	for step := first; !ended; {
		good := t.Run(strconv.Itoa(step), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "series.db")
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+program+"$")
			cmd.Env = append(os.Environ(), killAt+"="+strconv.Itoa(step), killFile+"="+name)
			output, err := cmd.CombinedOutput()
			if ended = err == nil; !ended {
				kills++
			}
			if bytes.Contains(output, []byte("FAIL")) {
				t.Fatalf("%s", output)
			}
			y.store = open(t, name, Options{Now: func() time.Time { return present }})
			check(t)
			if err := w(t.Context(), y.store); err != nil {
				t.Fatal(err)
			}
			check(t)
			if chunks, blocks := y.count(t, "chunks"), y.count(t, "blocks"); chunks > 0 || blocks != want {
				t.Errorf("%d chunks and %d blocks are left, not %d", chunks, blocks, want)
			}
		})
		if !good || step > 10_000 { // no end where a flag leaves steps out
			break
		}
		if step += stride; !long {
			step += step / 8
		}
	}
	t.Logf("%d processes were killed", kills)
	if kills*stride < 10 || !ended {
		t.Error("too few, or without an end")
	}
}

// TestKilledPacking kills processes while they pack two transactions of points: days with
// and without a block, late and corrected values, series of several sets of tags.
func TestKilledPacking(t *testing.T) {
	packing := work(func(ctx context.Context, s *Store) error { return s.pack(ctx, present) })
	if packing.isKilled(t) {
		return
	}
	y := newYears(t, filepath.Join(t.TempDir(), "series.db"), 3)
	y.store.packing.hour = present.Truncate(time.Hour) // so that writing doesn't pack
	write := func(samples []series.Sample) {
		y.model.write(samples)
		if err := y.store.Write(t.Context(), "db", samples); err != nil {
			t.Fatal(err)
		}
	}
	for begin := present.AddDate(0, 0, -9); begin.Before(present); begin = begin.Add(12 * time.Hour) {
		var samples []series.Sample
		for i := range 12 * 60 {
			samples = append(samples, series.Sample{Measurement: "m", Time: begin.Add(time.Duration(i) * time.Minute).Truncate(time.Minute), Fields: map[string]any{
				"f": float64(y.IntN(100000)) / 100, "x": y.NormFloat64(), "i": int64(y.IntN(1000)), "b": y.IntN(2) == 0,
			}})
		}
		write(samples)
	}
	if err := y.store.pack(t.Context(), present.AddDate(0, 0, -4)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		samples := y.samples()
		write(slices.DeleteFunc(samples, func(s series.Sample) bool { return !s.Time.Before(present) }))
	}
	packing.killEach(t, y, 76, y.check)
}

// TestKilledUpkeep kills processes while they pack, delete, and remake rollups.
func TestKilledUpkeep(t *testing.T) {
	upkeep := work(func(ctx context.Context, s *Store) error { return s.upkeep(ctx, present) })
	if upkeep.isKilled(t) {
		return
	}
	y := newYears(t, filepath.Join(t.TempDir(), "series.db"), 1)
	y.store.packing.hour = present.Truncate(time.Hour) // so that writing doesn't pack
	y.writeDays(t, 12)
	want := map[time.Duration]map[string][]series.Point{}
	for _, every := range []time.Duration{time.Hour, 24 * time.Hour} {
		want[every] = y.answers(t, 11, every)
	}
	if _, err := y.store.file.Writer.Exec("UPDATE databases SET retention = ?, parts = 2, stale = 1", 72*time.Hour); err != nil {
		t.Fatal(err)
	}
	upkeep.killEach(t, y, 4*4, func(t *testing.T) {
		for every, want := range want {
			if got := y.answers(t, 11, every); !sameAnswers(got, want) {
				t.Fatalf("windows of %s are\n%+v\nnot\n%+v", every, got, want)
			}
		}
	})
}
