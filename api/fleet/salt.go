package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"

	"tsmon/store/record"
)

// SaltName is the name of the salt among the secrets of the records.
const SaltName = "client ids"

const (
	saltSize = 32              // bytes
	saltTime = 5 * time.Second // that Start waits for it
)

// salt is hashed before the IDs of clients, so that nobody outside can make up IDs whose
// digests are in a sample, or networks that count as another. The first server generates it and
// stores it in the records for all servers, so it lives as long as the data recorded with it.
// It is not encrypted there, since whoever reads the records sees everything that it protects.
type salt struct {
	records Records
	known   atomic.Pointer[[]byte]
}

// learn reads the salt from the records, or generates it, unless it is known. wait bounds the
// time for that.
func (s *salt) learn(ctx context.Context, wait time.Duration) error {
	if s.known.Load() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	made := make([]byte, saltSize)
	_, _ = rand.Read(made) // does not fail
	kept, err := s.records.CreateSecret(ctx, SaltName, made)
	if err == nil {
		s.known.Store(&kept)
	}
	return err
}

// client returns the digests under which a client is recorded, and false if the salt is
// unknown.
func (s *salt) client(c Client) (client, bool) {
	known := s.known.Load()
	if known == nil {
		return client{}, false
	}
	id, network := digest(*known, "client", c.ID), digest(*known, "network", c.Network)
	return client{record.ClientID(id[:16]), record.Network(binary.BigEndian.Uint16(network[:])), c.ID != ""}, true
}

func digest(salt []byte, kind, text string) [sha256.Size]byte {
	var space [128]byte
	all := append(append(append(append(space[:0], salt...), kind...), 0), text...)
	return sha256.Sum256(all)
}
