package record

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// moment is a time some microseconds into a day.
func moment(micros int) time.Time {
	return time.Date(2026, 3, 5, 0, 0, 0, micros*1000, time.UTC)
}

func TestMerge(t *testing.T) {
	var none time.Time
	a, b := ClientID{0: 1}, ClientID{15: 1}
	s := Sightings{
		Installed: []Installed{
			{"stable", a, "1.0.0", "linux-x86_64", "", moment(5), none},
			{"stable", a, "1.1.0", "linux-x86_64", "beta", moment(7), none},
			{"stable", a, "0.9.0", "linux-x86_64", "", moment(6), none},
			{"stable", b, "2.0.0", "x", "c", moment(1), none},
			{"stable", b, "2.0.0", "y", "", moment(1), none},
			{"stable", b, "2.0.0", "x", "d", moment(1).Add(time.Nanosecond), none},
			{"beta", a, "1.0.0", "linux-x86_64", "", moment(1), none},
		},
		Tries: []Try{
			{"stable", a, "2", none, moment(3), none, moment(9), none, 9, 0, nil},
			{"stable", a, "2", moment(1), none, moment(8), moment(7), moment(1), 3, 0, nil},
			{"stable", a, "2", moment(4), moment(6), moment(9), none, moment(2), 2, 0, nil},
			{"stable", a, "1", none, none, none, none, none, 0, 0, nil},
			{"stable", b, "2", none, none, none, none, moment(1), 0, 0, nil},
			{"beta", a, "2", moment(1), none, none, none, none, 0, 0, nil},
		},
		Downloads: []Download{{a, "2", moment(2)}, {b, "2", moment(3)}, {a, "2", moment(1)}, {a, "1", moment(9)}},
	}
	want := Sightings{
		Installed: []Installed{
			{"beta", a, "1.0.0", "linux-x86_64", "", moment(1), none},
			{"stable", b, "2.0.0", "y", "d", moment(1).Add(time.Nanosecond), none},
			{"stable", a, "1.1.0", "linux-x86_64", "beta", moment(7), none},
		},
		Tries: []Try{
			{"beta", a, "2", moment(1), none, none, none, none, 0, 0, nil},
			{"stable", a, "1", none, none, none, none, none, 0, 0, nil},
			{"stable", b, "2", none, none, none, none, moment(1), 0, 0, nil},
			{"stable", a, "2", moment(4), moment(6), moment(9), moment(9), moment(2), 3, 0, &Firsts{moment(3), moment(1), moment(1)}},
		},
		Downloads: []Download{{b, "2", moment(3)}, {a, "1", moment(9)}, {a, "2", moment(2)}},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		given := Sightings{slices.Clone(s.Installed), slices.Clone(s.Tries), slices.Clone(s.Downloads)}
		merged := s.Merge()
		if !reflect.DeepEqual(merged, want) {
			t.Fatalf("got  %v\nwant %v", merged, want)
		}
		if !reflect.DeepEqual(s, given) {
			t.Fatal("what was handed in is changed")
		}
		if again := merged.Merge(); !reflect.DeepEqual(again, want) {
			t.Fatalf("merged again it is %v", again)
		}
		random.Shuffle(len(s.Installed), func(i, j int) { s.Installed[i], s.Installed[j] = s.Installed[j], s.Installed[i] })
		random.Shuffle(len(s.Tries), func(i, j int) { s.Tries[i], s.Tries[j] = s.Tries[j], s.Tries[i] })
		random.Shuffle(len(s.Downloads), func(i, j int) { s.Downloads[i], s.Downloads[j] = s.Downloads[j], s.Downloads[i] })
	}
}

// TestMergeRounds: the first times are those of the latest round, whichever comes first.
func TestMergeRounds(t *testing.T) {
	tries := []Try{
		{Asked: moment(1), Installed: moment(1), Crashed: moment(2), Round: 3}, {Running: moment(9), Round: 5}, {Failed: moment(7), Round: 5},
		{Asked: moment(6), Installed: moment(6), Round: 5}, {Running: moment(4), Round: 4},
	}
	want := Firsts{moment(6), moment(7), moment(7)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		random.Shuffle(len(tries), func(i, j int) { tries[i], tries[j] = tries[j], tries[i] })
		left, right := tries[0].Merge(tries[1]).Merge(tries[2]), tries[3].Merge(tries[4])
		for _, merged := range []Try{left.Merge(right), right.Merge(left).Merge(tries[random.IntN(len(tries))])} {
			if got := merged.Firsts(); got != want || merged.Round != 5 || !merged.Crashed.Equal(moment(2)) || !merged.Running.Equal(moment(9)) {
				t.Fatalf("%+v: %+v, want %+v", tries, got, want)
			}
		}
	}
}

// TestMergeInstalled: whatever the order, the latest sighting decides the version, and
// the latest question the target.
func TestMergeInstalled(t *testing.T) {
	at := func(version, target string, seen, asked int) Installed {
		i := Installed{Version: version, Target: target, Seen: moment(seen)}
		if asked > 0 {
			i.Asked = moment(asked)
		}
		return i
	}
	random := rand.New(rand.NewPCG(1, 2))
	for want, list := range map[Installed][]Installed{
		at("2", "x-deb", 9, 5): {at("1", "x-rpm", 4, 4), at("1", "x-deb", 5, 5), at("1", "x-app", 5, 5), at("2", "x", 9, 0), at("1", "y", 6, 0)},
		at("2", "y", 9, 0):     {at("1", "z", 8, 0), at("2", "x", 9, 0), at("2", "y", 9, 0)},
		at("1", "z", 8, 0):     {at("0", "x", 7, 0), at("1", "z", 8, 0), at("3", "zz", 1, 0)},
	} {
		for range 50 {
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			middle := random.IntN(len(list)-1) + 1
			left, right := list[0], list[middle]
			for _, i := range list[1:middle] {
				left = left.Merge(i)
			}
			for _, i := range list[middle+1:] {
				right = right.Merge(i)
			}
			if got := left.Merge(right); got != want {
				t.Fatalf("%+v: %+v, want %+v", list, got, want)
			}
		}
	}
}

func TestMicros(t *testing.T) {
	for micros, at := range map[int64]time.Time{0: time.Unix(0, 999), -1: time.Unix(0, -1), 1_000_001: time.Unix(1, 1000).In(time.FixedZone("x", 3600))} {
		if got := Micros(at); got == nil || *got != micros {
			t.Errorf("%v is %v, want %d", at, got, micros)
		}
	}
	if got := Micros(time.Time{}); got != nil {
		t.Errorf("no time is %d", *got)
	}
}

func TestSightingsValidate(t *testing.T) {
	long, longest := strings.Repeat("a", 257), strings.Repeat("a", 256)
	good := Sightings{
		Installed: []Installed{{longest, ClientID{}, longest, longest, longest, moment(0), moment(0)}, {Seen: moment(0)}},
		Tries:     []Try{{Channel: longest, Version: longest}, {}},
		Downloads: []Download{{Version: longest, Time: moment(0)}},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{long, "\x00", "\xff"} {
		for _, s := range []Sightings{
			{Installed: []Installed{{Channel: bad, Seen: moment(0)}}}, {Installed: []Installed{{Version: bad, Seen: moment(0)}}},
			{Installed: []Installed{{Target: bad, Seen: moment(0)}}}, {Installed: []Installed{{Cohort: bad, Seen: moment(0)}}},
			{Tries: []Try{{Channel: bad}}}, {Tries: []Try{{Version: bad}}}, {Downloads: []Download{{Version: bad, Time: moment(0)}}},
			{Installed: []Installed{{}}}, {Downloads: []Download{{}}},
		} {
			if err := s.Validate(); !errors.Is(err, ErrInvalid) {
				t.Errorf("%.300v: %v", s, err)
			}
		}
	}
}
