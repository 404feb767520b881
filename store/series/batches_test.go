package series_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"tsmon/store/series"
)

// numbered yields samples called 0 to n-1 and then an error, if there is one.
func numbered(n int, err error) iter.Seq2[series.Sample, error] {
	return func(yield func(series.Sample, error) bool) {
		for i := range n {
			if !yield(series.Sample{Measurement: string(rune('a' + i))}, nil) {
				return
			}
		}
		if err != nil {
			yield(series.Sample{}, err)
		}
	}
}

func TestWriteAll(t *testing.T) {
	mistake, full := errors.New("mistake"), errors.New("full")
	for _, c := range []struct {
		n       int
		mistake error
		fails   string // the batch that can't be written
		want    string
		err     error
	}{
		{0, nil, "", "", nil},
		{0, mistake, "", "", mistake},
		{2, nil, "", "ab", nil},
		{3, nil, "", "abc", nil},
		{7, nil, "", "abc def g", nil},
		{7, mistake, "", "abc def", mistake},
		{9, mistake, "", "abc def ghi", mistake},
		{7, nil, "g", "abc def g", full},
		{7, nil, "def", "abc def", full},
		{12, nil, "abc", "abc", full},
		{6, mistake, "def", "abc def", full},
	} {
		var written []string
		err := series.WriteAll(numbered(c.n, c.mistake), 3, func(batch []series.Sample) error {
			var names string
			for _, s := range batch {
				names += s.Measurement
			}
			if written = append(written, names); names == c.fails {
				return full
			}
			return nil
		})
		if got := strings.Join(written, " "); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%+v: wrote %q, %v", c, got, err)
		}
	}
}

// TestWriteAllReadsAhead reads the second batch before the first one is written.
func TestWriteAllReadsAhead(t *testing.T) {
	second := make(chan struct{})
	samples := func(yield func(series.Sample, error) bool) {
		for s, err := range numbered(6, nil) {
			if s.Measurement == "f" {
				close(second)
			}
			if !yield(s, err) {
				return
			}
		}
	}
	var sizes []int
	err := series.WriteAll(samples, 3, func(batch []series.Sample) error {
		<-second
		sizes = append(sizes, len(batch))
		return nil
	})
	if err != nil || !slices.Equal(sizes, []int{3, 3}) {
		t.Errorf("batches of %v, %v", sizes, err)
	}
}

func TestWriteAllPanics(t *testing.T) {
	err := series.WriteAll(numbered(3, nil), 3, func([]series.Sample) error { panic("no disk") })
	if err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("the error is %v", err)
	}
}
