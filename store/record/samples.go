package record

import (
	"bytes"
	"context"
	"math"
	"sort"
)

// Samples bound how many clients are recorded. A channel with more clients keeps a sample:
// the clients whose IDs, which are digests, begin with a number of zero bits. All servers
// keep the same clients, and each smaller sample is a subset of the larger ones.
type Samples interface {
	// Bound returns the sample of a channel's clients or, with a version, of its tries.
	// It first shrinks the sample to known, and then with Smaller until it has at most most
	// rows. Rows outside the sample no longer count, and stay until Sweep. ErrInvalid
	// unless most is positive.
	Bound(ctx context.Context, channel, version string, most int, known Sample) (Sample, error)

	// Sweep deletes the rows that are not in the sample. It blocks other writers only
	// briefly.
	Sweep(ctx context.Context, channel, version string) error

	// Sample returns the sample without changing it.
	Sample(ctx context.Context, channel, version string) (Sample, error)
}

// Sample describes which clients of a channel or of a release are recorded.
type Sample struct {
	Level
	OfNetwork int // the most clients of one network; 0 for any number
	Rows      int // recorded clients
}

// Smaller returns the next smaller sample, of about half as many clients. For the tries of a
// release, sizes has the number of clients of each network. Smaller first reduces the largest
// networks, as long as each keeps leastOfNetwork. Otherwise, and for the clients of a channel,
// where sizes is nil, it goes on to the next Level.
func (s Sample) Smaller(sizes []int, most int) Sample {
	if n := mostOfNetwork(sizes, most/2); len(sizes) > 0 && n > 0 && (n < s.OfNetwork || s.OfNetwork == 0) {
		s.OfNetwork = n
	} else {
		s.Level++
	}
	return s
}

// Within returns the intersection of two samples.
func (s Sample) Within(other Sample) Sample {
	s.Level = max(s.Level, other.Level)
	if s.OfNetwork == 0 || other.OfNetwork > 0 && other.OfNetwork < s.OfNetwork {
		s.OfNetwork = other.OfNetwork
	}
	return s
}

// Level is how many zero bits the IDs of a sample's clients begin with.
type Level int

// MaxLevel samples one client in a thousand million.
const MaxLevel Level = 30

// Holds reports whether a sample of that level contains a client.
func (l Level) Holds(id ClientID) bool {
	return bytes.Compare(id[:], l.Below()) < 0
}

// Rate returns the share of clients that a sample of that level contains.
func (l Level) Rate() float64 { return 1 / float64(int64(1)<<l) }

// Estimate returns the estimated number of all clients, given the number in a sample of that
// level.
func (l Level) Estimate(sampled int) int { return sampled << l }

// likely is the number of standard deviations of a 95% confidence interval.
const likely = 1.96

// Margin returns the margin of error of Estimate, in clients, at 95% confidence.
func (l Level) Margin(sampled int) int {
	odds := 1/l.Rate() - 1 // clients outside the sample for each in it
	if sampled == 0 {
		return int(math.Ceil(3 * odds))
	}
	return int(math.Ceil(likely * math.Sqrt(float64(l.Estimate(sampled))*odds)))
}

// ShareMargin returns the margin of error, at 95% confidence, of taking with/sampled as the
// share of all clients. Shares are from 0 to 1.
func (l Level) ShareMargin(with, sampled int) float64 {
	if sampled == 0 {
		return 0
	}
	n, absent := float64(sampled), 1-l.Rate()
	share := float64(with) / n
	if with == 0 || with == sampled {
		return min(1, 3*absent/n)
	}
	return likely * math.Sqrt(share*(1-share)/n*absent)
}

// Below returns an exclusive upper bound of the IDs in the sample; for adapters.
func (l Level) Below() []byte {
	if l == 0 {
		return []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	}
	below := make([]byte, len(ClientID{}))
	below[(l-1)/8] = 0x80 >> ((l - 1) % 8)
	return below
}

// leastOfNetwork is the smallest limit on the clients of one network.
const leastOfNetwork = 10

// mostOfNetwork returns the largest limit on the clients of one network that leaves at most
// most clients, or 0 if that is below leastOfNetwork. sizes are the clients of
// each network.
func mostOfNetwork(sizes []int, most int) int {
	found := sort.Search(most, func(n int) bool {
		rows := 0
		for _, size := range sizes {
			rows += min(size, n+1)
		}
		return rows > most
	})
	if found < leastOfNetwork {
		return 0
	}
	return found
}
