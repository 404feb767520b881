package record

import (
	"bytes"
	"context"
	"math"
	"sort"
)

// Samples bound how many clients are recorded. Of a channel with more of them a sample
// is kept: those whose IDs, which are digests, begin with so many zero bits. All
// servers keep the same ones, and a smaller sample is part of the larger one before.
type Samples interface {
	// Bound returns the sample of a channel's clients or, with a version, of its tries.
	// It is no larger than known, which the caller found to be too large itself. If it
	// has more than most rows it is made Smaller first. Rows that it leaves out count no
	// more, and stay until Sweep. ErrInvalid unless most is positive.
	Bound(ctx context.Context, channel, version string, most int, known Sample) (Sample, error)

	// Sweep deletes the rows that are not in a sample. It blocks other writers for short
	// times only.
	Sweep(ctx context.Context, channel, version string) error

	// Sample returns the same sample and changes nothing.
	Sample(ctx context.Context, channel, version string) (Sample, error)
}

// Sample is what is recorded of the clients of a channel or of a release.
type Sample struct {
	Level
	OfNetwork int // the most clients of one network; 0: any number
	Rows      int // clients that are recorded
}

// Smaller returns the next smaller sample, of about half as many clients. For the tries of a
// release, sizes has the number of clients of each network, and Smaller first leaves out
// those of the largest networks, as long as each network keeps leastOfNetwork. Otherwise, and
// for the clients of a channel, where sizes is nil, it leaves out all that are not in the
// next Level.
func (s Sample) Smaller(sizes []int, most int) Sample {
	if n := MostOfNetwork(sizes, most/2); len(sizes) > 0 && n > 0 && (n < s.OfNetwork || s.OfNetwork == 0) {
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

// Level is how many zero bits the ID of a client begins with if it is in a sample.
type Level int

// MaxLevel is one in a thousand million.
const MaxLevel Level = 30

// Holds reports whether a sample of that level contains a client.
func (l Level) Holds(id ClientID) bool {
	return bytes.Compare(id[:], l.Below()) < 0
}

// Rate returns the share of clients that a sample of that level contains.
func (l Level) Rate() float64 { return 1 / float64(int64(1)<<l) }

// Estimate returns how many clients there are in all if so many of them are in a sample
// of that level.
func (l Level) Estimate(sampled int) int { return sampled << l }

// likely is how many standard deviations an estimate is off in at most one of twenty
// cases.
const likely = 1.96

// Margin returns by how many clients Estimate is off at most, in 19 of 20 cases.
func (l Level) Margin(sampled int) int {
	odds := 1/l.Rate() - 1 // clients that are not in the sample for each that is
	if sampled == 0 {
		return int(math.Ceil(3 * odds))
	}
	return int(math.Ceil(likely * math.Sqrt(float64(l.Estimate(sampled))*odds)))
}

// ShareMargin returns by how much the share of sampled clients that have something is
// off at most as the share of all clients, in 19 of 20 cases. Shares are from 0 to 1.
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

// Below returns what the bytes of all IDs in the sample are below; for adapters.
func (l Level) Below() []byte {
	if l == 0 {
		return []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	}
	below := make([]byte, len(ClientID{}))
	below[(l-1)/8] = 0x80 >> ((l - 1) % 8)
	return below
}

// leastOfNetwork is how many clients of a network are kept at least while others have
// more.
const leastOfNetwork = 10

// MostOfNetwork returns the largest number of clients of each network with which at
// most so many remain, 0 if that is below leastOfNetwork; for adapters. sizes are the
// clients of each network.
func MostOfNetwork(sizes []int, most int) int {
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
