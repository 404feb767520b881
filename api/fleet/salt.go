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

// salt begins what is digested of clients: nobody outside can make up IDs whose digests
// are in a sample, or networks that count as somebody else's. It lies in the records, for
// all servers, made by the first of them; so it lasts as long as what is recorded by it.
// It is not encrypted there: who reads the records sees all that it protects.
type salt struct {
	records interface {
		CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error)
	}
	known atomic.Pointer[[]byte]
}

// learn reads the salt, or makes it, unless it is known.
func (s *salt) learn(ctx context.Context) error {
	if s.known.Load() != nil {
		return nil
	}
	made := make([]byte, saltSize)
	_, _ = rand.Read(made) // does not fail
	kept, err := s.records.CreateSecret(ctx, SaltName, made)
	if err == nil {
		s.known.Store(&kept)
	}
	return err
}

// client returns how a client is recorded, and false if the salt is not known.
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
