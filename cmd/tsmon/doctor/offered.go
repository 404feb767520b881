package doctor

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release/library"
)

// offered compares the bundles that a channel offers with the records of their releases, by
// size and checksum. If the store keeps no checksums the bundles are read, for at most half of
// the area's time.
func (p channelsArea) offered(ctx context.Context, n *notes, name string, log *channels.Log) {
	ctx, cancel := context.WithTimeout(ctx, p.Limit/2)
	defer cancel()
	l := library.Library{Store: p.store, Keys: p.keys}
	head, count := log.Head(), 0
	for _, version := range slices.Compact([]string{head.Version, head.Newest()}) {
		record, err := l.Named(ctx, version, log.Record(version))
		if errors.Is(err, library.ErrNoRelease) || errors.Is(err, library.ErrStored) {
			n.at(library.Folder(version)).fail(putBack(name), "%v", err)
			return
		}
		for i := 0; err == nil && i < len(record.Bundles); i++ {
			err = p.holds(ctx, n, l, name, version, record.Bundles[i])
			count++
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			n.at(library.Folder(version)).warn("`tsmon channel verify "+name+"` reads them all", "the bundles of %s were not compared with what was published within %v", version, p.Limit/2)
			return
		case err != nil:
			n.at(library.Folder(version)).failed(err, "see storage")
			return
		}
	}
	n.at(channels.ManifestKey(name)).ok("%s on offer, as published", cli.Count(count, "bundle", "bundles"))
}

// holds checks one bundle. Errors are those of the store.
func (p channelsArea) holds(ctx context.Context, n *notes, l library.Library, channel, version string, b library.Stored) error {
	key := library.BundleKey(version, b.Name)
	same, err := l.Holds(ctx, key, b.Size, b.CRC64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		n.at(key).fail(putBack(channel), "%s offers %s, which is gone", channel, version)
		return nil
	case err == nil && !same:
		n.at(key).fail(putBack(channel), "%s offers %s with other bytes than were published: the updater refuses them", channel, version)
	}
	return err
}

func putBack(channel string) string {
	return "`tsmon channel repair " + channel + " --bundle FILE` restores them from a copy; without one, publish a higher version"
}
