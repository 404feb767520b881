package record

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"
)

// TestLevel: a sample holds about its share of the clients, and those of each smaller
// one.
func TestLevel(t *testing.T) {
	const n = 1 << 14
	ids := make([]ClientID, n)
	for i := range ids {
		sum := sha256.Sum256([]byte(fmt.Sprint(i)))
		ids[i] = ClientID(sum[:])
	}
	for level := range Level(12) {
		held := 0
		for _, id := range ids {
			if level.Holds(id) {
				held++
			} else if (level + 1).Holds(id) {
				t.Fatalf("level %d holds what level %d does not", level+1, level)
			}
		}
		want := n * level.Rate()
		if math.Abs(float64(held)-want) > 4*math.Sqrt(want)+0.5 {
			t.Errorf("level %d holds %d of %d", level, held, n)
		}
	}
	var zero, one ClientID
	one[3] = 4 // 29 zero bits before it
	if !MaxLevel.Holds(zero) || MaxLevel.Holds(one) || !Level(29).Holds(one) || !Level(0).Holds(ClientID([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))) {
		t.Error("the ends of the samples are wrong")
	}
}

// TestMargin: of many samples at most about one in twenty is further from the truth than
// its margin says.
func TestMargin(t *testing.T) {
	const clients, with, samples = 6000, 1800, 400
	for _, level := range []Level{0, 1, 4} {
		var far, farShare, farNone int
		for nth := range samples {
			n, has := 0, 0
			for i := range clients {
				sum := sha256.Sum256(fmt.Appendf(nil, "%d of %d", i, nth))
				if !level.Holds(ClientID(sum[:])) {
					continue
				}
				n++
				if i < with {
					has++
				}
			}
			if math.Abs(float64(level.Estimate(n)-clients)) > float64(level.Margin(n)) {
				far++
			}
			if math.Abs(float64(has)/float64(n)-float64(with)/clients) > level.ShareMargin(has, n) {
				farShare++
			}
			if level.Margin(0) < 1<<level-1 || level.ShareMargin(0, n) >= 1 {
				farNone++
			}
		}
		if far > samples/10 || farShare > samples/10 || farNone > 0 {
			t.Errorf("level %d: of %d samples %d are off, %d in the share", level, samples, far, farShare)
		}
	}
	if Level(0).Margin(1000) != 0 || Level(0).Margin(0) != 0 || Level(0).ShareMargin(1, 2) != 0 || Level(3).ShareMargin(0, 0) != 0 {
		t.Error("a sample of all clients is not exact")
	}
}

func TestMostOfNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		sizes      []int
		most, want int
	}{
		"one network":   {[]int{5000}, 1000, 1000},
		"few of many":   {[]int{1, 1, 1, 500, 500}, 103, 50},
		"all have few":  {[]int{3, 3, 3, 3}, 8, 0},
		"nobody":        {nil, 50, 50},
		"just enough":   {[]int{100, 100}, 2 * leastOfNetwork, leastOfNetwork},
		"one too few":   {[]int{100, 100}, 2*leastOfNetwork - 1, 0},
		"more than all": {[]int{5, 6}, 100, 100},
	} {
		if got := mostOfNetwork(c.sizes, c.most); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
