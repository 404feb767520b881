// Package ring divides the clients into a hundred equal parts, by a hash of the ID of the
// installation, and draws which of them a rollout includes.
package ring

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// Count is the number of rings.
const Count = 100

// Of returns the ring of an installation, from 0 to 99: the first eight hex digits
// of the SHA-256 of its ID, as a number, modulo 100.
func Of(id string) int {
	sum := sha256.Sum256([]byte(id))
	return int(binary.BigEndian.Uint32(sum[:4]) % Count)
}

// Parse reads the two digits of a ring.
func Parse(text string) (ring int, ok bool) {
	ring, err := strconv.Atoi(text)
	return ring, err == nil && ring >= 0 && text == fmt.Sprintf("%02d", ring) && ring < Count
}

// Set are some of the rings.
type Set [Count]bool

// Draw returns as many rings as share, from 0 to 100. Their order depends on the ID of the
// rollout; a ring that is included stays included as the share rises.
func Draw(rollout string, share int) (in Set) {
	type drawn struct {
		ring int
		lot  [sha256.Size]byte
	}
	order := make([]drawn, Count)
	for i := range order {
		order[i] = drawn{i, sha256.Sum256(fmt.Appendf(nil, "%s\x00%02d", rollout, i))}
	}
	slices.SortFunc(order, func(a, b drawn) int {
		return cmp.Or(bytes.Compare(a.lot[:], b.lot[:]), cmp.Compare(a.ring, b.ring))
	})
	for _, d := range order[:share] {
		in[d.ring] = true
	}
	return in
}
