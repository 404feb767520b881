package series

import (
	"cmp"
	"fmt"
	"iter"
	"runtime/debug"

	"golang.org/x/sync/errgroup"
)

// WriteAll calls write with batches of samples, one after another, each while the next
// is being read. It writes the last one only if no error follows it. It returns the first
// error, and only when no write is running. Write must not keep a batch.
func WriteAll(samples iter.Seq2[Sample, error], size int, write func([]Sample) error) error {
	var running errgroup.Group // of one write at most
	defer func() { _ = running.Wait() }()
	start := func(batch []Sample) error {
		if err := running.Wait(); err != nil {
			return err
		}
		running.Go(func() (err error) {
			defer recovered("write", &err)
			return write(batch)
		})
		return nil
	}
	batch, other := make([]Sample, 0, size), make([]Sample, 0, size)
	for s, err := range samples {
		if err != nil {
			return cmp.Or(running.Wait(), err)
		}
		if batch = append(batch, s); len(batch) == size {
			if err := start(batch); err != nil {
				return err
			}
			batch, other = other[:0], batch
		}
	}
	if len(batch) > 0 {
		if err := start(batch); err != nil {
			return err
		}
	}
	return running.Wait()
}

// recovered turns a panic of its caller into an error, since on a goroutine of its own a
// panic ends the process.
func recovered(what string, err *error) {
	if found := recover(); found != nil {
		*err = fmt.Errorf("%s: panic: %v\n%s", what, found, debug.Stack())
	}
}
