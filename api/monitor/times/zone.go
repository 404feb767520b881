package times

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

//go:generate sh -c "cp $(go env GOROOT)/lib/time/zoneinfo.zip . && chmod 644 zoneinfo.zip"

// zoneInfo is the toolchain's zone data. Every server cuts days by the same rules,
// whatever its machine has.
//
//go:embed zoneinfo.zip
var zoneInfo []byte

var openZones = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(bytes.NewReader(zoneInfo), int64(len(zoneInfo)))
})

var zones sync.Map // *time.Location by name, of those that exist

// ZoneOf returns an IANA zone, UTC for the empty name.
func ZoneOf(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	all, err := openZones()
	if err != nil {
		return nil, fmt.Errorf("zone data: %w", err)
	}
	data, err := fs.ReadFile(all, name)
	if err != nil {
		return nil, fmt.Errorf("%.80q is not an IANA zone, such as America/Bogota", name)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("zone %s: %w", name, err)
	}
	zones.Store(name, zone)
	return zone, nil
}
