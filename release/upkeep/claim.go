package upkeep

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"

	"tsmon/release/library"
	"tsmon/store/object"
)

// claims is the folder of the versions that are about to become the first of a channel. Such
// a channel has no log that could conflict with an entry of Prune. So whoever moves it writes
// a claim first and then checks whether the version is being pruned, while Prune first
// announces the version and then looks for claims: at least one of them sees the other.
const claims = library.StagedRoot + "moves/"

// Claim writes a claim and returns a function that removes it. A claim that stays, for example after a
// crash, protects the version from Prune for Rest, and is then a leftover.
func Claim(ctx context.Context, store object.Store, version, channel string) (drop func(), err error) {
	key := claims + version + "/" + channel + "-" + rand.Text()
	if _, err := store.Create(ctx, key, bytes.NewReader(nil), 0, object.Attributes{}); err != nil {
		return nil, err
	}
	return func() { _ = store.Delete(context.WithoutCancel(ctx), key) }, nil // prune removes it once it is old
}

// isOldClaim reports whether an object is a claim of somebody who must have ended. Both times
// are the store's.
func (w *pruning) isOldClaim(info object.Info) bool {
	return strings.HasPrefix(info.Key, claims) && w.stored.Sub(info.ModTime) > Rest
}

// claimed returns the versions that are claimed.
func (w *pruning) claimed(ctx context.Context) (map[string]bool, error) {
	found := map[string]bool{}
	for info, err := range w.Library.Store.List(ctx, claims, "") {
		if err != nil {
			return nil, err
		}
		if !w.isOldClaim(info) {
			version, _, _ := strings.Cut(strings.TrimPrefix(info.Key, claims), "/")
			found[version] = true
		}
	}
	return found, nil
}
