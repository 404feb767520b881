package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"

	"tsmon/store/object"
)

const large = 20 << 20 // more than one part of an upload

func roundTrips(t *testing.T, s object.Store) {
	for _, size := range []int{0, 1, 5<<20 + 1, object.StraightSize, object.StraightSize + 1, large} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			key, data := fmt.Sprintf("releases/1.0.0/%d.bin", size), sample(size)
			info := mustCreate(t, s, key, data)
			wantContent(t, s, key, data)
			stat, err := s.Stat(t.Context(), key)
			if err != nil || !sameInfo(stat, info) {
				t.Errorf("Create returns %+v and Stat %+v, %v", info, stat, err)
			}
		})
	}
}

func createTaken(t *testing.T, s object.Store) {
	data := sample(1000)
	mustCreate(t, s, "a/taken", data)
	for _, size := range []int{0, 999, 1000, 1001, object.StraightSize} {
		wantError(t, tryCreate(t.Context(), s, "a/taken", sample(size)), fs.ErrExist)
	}
	wantError(t, tryCreate(t.Context(), s, "a/taken", data), fs.ErrExist)

	r := &unread{}
	_, err := s.Create(t.Context(), "a/taken", r, object.StraightSize+1, object.Attributes{})
	wantError(t, err, fs.ErrExist)
	if r.read {
		t.Error("the data of a large object was read although its key is taken")
	}
	wantContent(t, s, "a/taken", data)
}

// unread remembers whether it was read.
type unread struct{ read bool }

func (u *unread) Read(p []byte) (int, error) {
	u.read = true
	return len(p), nil
}

var errReader = errors.New("the signature does not match")

func createFailingReader(t *testing.T, s object.Store) {
	for _, size := range []int{1, 1000, object.StraightSize, object.StraightSize + 1, 2 * object.StraightSize, large} {
		data := sample(size)
		longer := append(data[:size:size], 'x')
		for _, c := range []struct {
			name string
			r    io.Reader
			want error // nil: any
		}{
			{"AtOnce", failAfter(nil), errReader},
			{"InTheMiddle", failAfter(data[:size/2]), errReader},
			{"BeforeTheLastByte", failAfter(data[:size-1]), errReader},
			{"WithTheLastByte", &failWithLast{data: data}, errReader},
			{"AfterTheLastByte", failAfter(data), errReader},
			{"Short", bytes.NewReader(data[:size-1]), io.ErrUnexpectedEOF},
			{"Long", bytes.NewReader(longer), nil},
		} {
			t.Run(fmt.Sprintf("%d/%s", size, c.name), func(t *testing.T) {
				_, err := s.Create(t.Context(), "a/key", c.r, int64(size), object.Attributes{})
				if err == nil {
					t.Fatal("there is no error")
				}
				if c.want != nil {
					wantError(t, err, c.want)
				}
				wantAbsent(t, s, "a/key")
			})
		}
	}
	mustCreate(t, s, "a/key", sample(10))
}

// failAfter delivers data and then fails.
func failAfter(data []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(data), failing{})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errReader }

// failWithLast fails in the call that delivers the last byte, and then returns io.EOF.
type failWithLast struct{ data []byte }

func (f *failWithLast) Read(p []byte) (int, error) {
	if len(f.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.data)
	f.data = f.data[n:]
	if len(f.data) == 0 {
		return n, errReader
	}
	return n, nil
}

func createCancelled(t *testing.T, s object.Store) {
	for _, size := range []int{1000, object.StraightSize + 1, large} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			data := sample(size)
			r := io.MultiReader(bytes.NewReader(data[:size/2]), call(cancel), bytes.NewReader(data[size/2:]))
			_, err := s.Create(ctx, "a/key", r, int64(size), object.Attributes{})
			wantError(t, err, context.Canceled)
			wantAbsent(t, s, "a/key")

			wantError(t, tryCreate(ctx, s, "a/key", data), context.Canceled)
			wantAbsent(t, s, "a/key")
		})
	}
}

// call is an empty reader that calls a function when it is read.
type call func()

func (c call) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

func createRace(t *testing.T, s object.Store) { race(t, s, 16, 10_000) }

func createRaceLarge(t *testing.T, s object.Store) { race(t, s, 4, object.StraightSize+1) }

// race has n writers create the same key at once.
func race(t *testing.T, s object.Store, n, size int) {
	data := samples(n, size)
	winner := onlyWinner(t, n, fs.ErrExist, func(i int) error {
		return tryCreate(t.Context(), s, "log/stable/0000000001.json", data[i])
	})
	wantContent(t, s, "log/stable/0000000001.json", data[winner])
}

// onlyWinner makes n attempts at once and returns the index of the one that succeeds. All
// others must fail with refused.
func onlyWinner(t *testing.T, n int, refused error, attempt func(i int) error) int {
	t.Helper()
	errs := atOnce(n, attempt)
	winner := -1
	for i, err := range errs {
		switch {
		case err != nil:
			wantError(t, err, refused)
		case winner >= 0:
			t.Errorf("both %d and %d won", winner, i)
		default:
			winner = i
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	return winner
}

// atOnce runs n calls concurrently and returns their errors.
func atOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

func conditions(t *testing.T, s object.Store) {
	data := sample(300)
	mustCreate(t, s, "log/stable/0000000001.json", data)
	err := object.CheckConditions(t.Context(), s, "log/stable/0000000001.json", data, object.Attributes{})
	if err != nil {
		t.Error(err)
	}
}
