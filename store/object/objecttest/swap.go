package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"tsmon/store/object"
)

const pointer = "stable/latest.json"

func trySwap(t *testing.T, s object.Store, etag string, data []byte) error {
	_, err := s.Swap(t.Context(), pointer, etag, data, object.Attributes{})
	return err
}

func swap(t *testing.T, s object.Store) {
	first, second := sample(500), sample(700)
	info := mustSwap(t, s, pointer, "", first)
	wantContent(t, s, pointer, first)
	if stat, err := s.Stat(t.Context(), pointer); err != nil || !sameInfo(stat, info) {
		t.Errorf("Swap returns %+v and Stat %+v, %v", info, stat, err)
	}
	next := mustSwap(t, s, pointer, info.ETag, second)
	wantContent(t, s, pointer, second)
	if next.ETag == info.ETag {
		t.Error("other bytes have the same ETag")
	}
	created := mustCreate(t, s, "created", first)
	mustSwap(t, s, "created", created.ETag, second)
	wantContent(t, s, "created", second)
}

func swapOtherETag(t *testing.T, s object.Store) {
	invented := strings.Repeat("0", 32)
	wantError(t, trySwap(t, s, invented, sample(5)), object.ErrChanged)
	wantAbsent(t, s, pointer)

	stale := mustSwap(t, s, pointer, "", sample(5))
	data := sample(5)
	current := mustSwap(t, s, pointer, stale.ETag, data)
	for _, etag := range []string{"", stale.ETag, invented, "x", current.ETag + "0", strings.ToUpper(stale.ETag)} {
		wantError(t, trySwap(t, s, etag, sample(5)), object.ErrChanged)
		wantContent(t, s, pointer, data)
	}
}

func swapBack(t *testing.T, s object.Store) {
	one, two := sample(50), sample(50)
	info := mustSwap(t, s, pointer, "", one)
	for _, data := range [][]byte{two, two, one, two, one, one} {
		info = mustSwap(t, s, pointer, info.ETag, data)
		wantContent(t, s, pointer, data)
	}
}

func swapSizes(t *testing.T, s object.Store) {
	data := sample(0)
	info := mustSwap(t, s, pointer, "", data)
	wantContent(t, s, pointer, data)
	data = sample(object.MaxSwap)
	info = mustSwap(t, s, pointer, info.ETag, data)
	if err := trySwap(t, s, info.ETag, sample(object.MaxSwap+1)); err == nil {
		t.Error("more than MaxSwap bytes were accepted")
	}
	wantContent(t, s, pointer, data)
}

func swapRace(t *testing.T, s object.Store) {
	info := mustSwap(t, s, pointer, "", sample(10))
	data := samples(16, 1000)
	winner := onlyWinner(t, len(data), object.ErrChanged, func(i int) error {
		return trySwap(t, s, info.ETag, data[i])
	})
	wantContent(t, s, pointer, data[winner])
}

// swapCreateRace has writers race to create an object, half of them with Create and half with
// Swap.
func swapCreateRace(t *testing.T, s object.Store) {
	data := samples(16, 1000)
	winner := onlyWinner(t, len(data), fs.ErrExist, func(i int) error {
		if i%2 == 0 {
			return tryCreate(t.Context(), s, pointer, data[i])
		}
		err := trySwap(t, s, "", data[i])
		if errors.Is(err, object.ErrChanged) {
			return fs.ErrExist
		}
		return err
	})
	wantContent(t, s, pointer, data[winner])
}

func samples(n, size int) [][]byte {
	data := make([][]byte, n)
	for i := range data {
		data[i] = sample(size)
	}
	return data
}

// swapChain has several writers append lines to one object. A writer whose swap fails reads
// the object and tries again. No line may be lost or repeated.
func swapChain(t *testing.T, s object.Store) {
	const writers, lines = 4, 8
	mustSwap(t, s, pointer, "", nil)
	for _, err := range atOnce(writers, func(i int) error {
		for n := range lines {
			if err := appendLine(t.Context(), s, fmt.Sprintf("%d-%d\n", i, n)); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	got, _ := content(t, s, pointer)
	for i := range writers * lines {
		line := fmt.Sprintf("%d-%d\n", i/lines, i%lines)
		if n := strings.Count(string(got), line); n != 1 {
			t.Errorf("the object has line %q %d times", line, n)
		}
	}
}

// appendLine retries until the object has the line.
func appendLine(ctx context.Context, s object.Store, line string) error {
	for {
		data, etag, err := read(ctx, s)
		if err != nil || bytes.Contains(data, []byte(line)) {
			return err
		}
		_, err = s.Swap(ctx, pointer, etag, append(data, line...), object.Attributes{})
		if !errors.Is(err, object.ErrChanged) {
			return err
		}
	}
}

func read(ctx context.Context, s object.Store) (data []byte, etag string, err error) {
	r, info, err := s.Get(ctx, pointer)
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	data, err = io.ReadAll(r)
	return data, info.ETag, err
}

// readWhileSwapping checks that every read returns one version, whole.
func readWhileSwapping(t *testing.T, s object.Store) {
	version := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 10_000+1000*i) }
	info := mustSwap(t, s, pointer, "", version(0))
	done := make(chan struct{})
	readers := func(i int) error {
		if i == 0 {
			defer close(done)
			var err error
			for n := 1; n < 20 && err == nil; n++ {
				info, err = s.Swap(t.Context(), pointer, info.ETag, version(n), object.Attributes{})
			}
			return err
		}
		for {
			select {
			case <-done:
				return nil
			default:
			}
			data, _, err := read(t.Context(), s)
			if err != nil {
				return err
			}
			if !bytes.Equal(data, version(int(data[0]-'a'))) {
				return fmt.Errorf("the %d bytes that were read are no written version", len(data))
			}
		}
	}
	for _, err := range atOnce(4, readers) {
		if err != nil {
			t.Error(err)
		}
	}
}
