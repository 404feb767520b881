package equation

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// TestRaiseExact has powers that a float64 holds: of b^q to p/q.
func TestRaiseExact(t *testing.T) {
	number, wrong := 0, 0
	for b := 2; b <= 60; b++ {
		for _, q := range []int{1, 2, 4, 8} {
			for p := -12; p <= 16; p++ {
				base, want := whole(b, q), whole(b, max(p, -p))
				if base > 1<<53 || want > 1<<53 || p < 0 && b&(b-1) != 0 {
					continue
				}
				if p < 0 {
					want = 1 / want
				}
				number++
				if got := raise(base, float64(p)/float64(q)); got != want {
					t.Errorf("%v ^ (%d/%d) is %v, want %v", base, p, q, got, want)
				}
				if math.Pow(base, float64(p)/float64(q)) != want {
					wrong++
				}
			}
		}
	}
	t.Logf("%d powers, of which math.Pow has %d wrong", number, wrong)
	if number < 2000 {
		t.Errorf("only %d were compared", number)
	}
}

func whole(b, n int) float64 {
	result := 1.0
	for range n {
		result *= float64(b)
	}
	return result
}

func TestRaiseRounds(t *testing.T) {
	f, err := os.Open("testdata/powers.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, number := bufio.NewScanner(f), 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var x, y, want float64
		if _, err := fmt.Sscan(lines.Text(), &x, &y, &want); err != nil {
			t.Fatal(err)
		}
		if got := raise(x, y); got != want {
			t.Errorf("%v ^ %v is %v, want %v", x, y, got, want)
		}
		number++
	}
	if lines.Err() != nil || number != 500 {
		t.Errorf("%d powers: %v", number, lines.Err())
	}
}

// TestRaiseSpecial has what the exact computation can't: math.Pow's answers stand.
func TestRaiseSpecial(t *testing.T) {
	inf, nan, most, least := math.Inf(1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, 2, -2, .5, inf, -inf, nan, most, -most, least, -least} {
		for _, y := range []float64{0, 1, -1, 2, 3, -3, inf, -inf, nan, 1e300, -1e300} {
			got, want := raise(x, y), math.Pow(x, y)
			if got != want && (got == got || want == want) || math.Signbit(got) != math.Signbit(want) {
				t.Errorf("%v ^ %v is %v, want %v", x, y, got, want)
			}
		}
	}
}
