package series

import (
	"cmp"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
)

// WriteAll calls write with batches of samples, one after another, each while the next
// is being read. It writes the last one only if no error follows it, and returns the
// first error once no write is running any more. A batch is write's only until it
// returns.
func WriteAll(samples iter.Seq2[Sample, error], size int, write func([]Sample) error) error {
	w := &batchWriter{write: write}
	defer w.running.Wait()
	batch, other := make([]Sample, 0, size), make([]Sample, 0, size)
	for s, err := range samples {
		if err != nil {
			return cmp.Or(w.wait(), err)
		}
		if batch = append(batch, s); len(batch) == size {
			if err := w.start(batch); err != nil {
				return err
			}
			batch, other = other[:0], batch
		}
	}
	if len(batch) > 0 {
		if err := w.start(batch); err != nil {
			return err
		}
	}
	return w.wait()
}

// batchWriter has one write running at most.
type batchWriter struct {
	write   func([]Sample) error
	running sync.WaitGroup
	err     error
}

// wait returns the error of the write that was started last.
func (w *batchWriter) wait() error {
	w.running.Wait()
	return w.err
}

// start starts a write once the one before has succeeded. A panic becomes an error: on
// its goroutine it would end the process.
func (w *batchWriter) start(batch []Sample) error {
	if err := w.wait(); err != nil {
		return err
	}
	w.running.Go(func() {
		defer func() {
			if found := recover(); found != nil {
				w.err = fmt.Errorf("write: panic: %v\n%s", found, debug.Stack())
			}
		}()
		w.err = w.write(batch)
	})
	return nil
}
