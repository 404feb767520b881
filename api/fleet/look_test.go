package fleet_test

import (
	"bytes"
	"context"
	"testing"

	"tsmon/api/apitest"
	"tsmon/store/object"
)

// TestStewardLooksFirst: the server replaces wrong objects in the store only after it has read the
// channels.
func TestStewardLooksFirst(t *testing.T) {
	g := guard(t, apitest.Embedded(t))
	key := g.channel + "/latest.json"
	g.publish("1.0.0", nil)
	older, _ := g.Stored(t, key)
	g.publish("1.1.0", nil)
	newer, _ := g.Stored(t, key)
	err := g.Objects.Delete(t.Context(), key)
	if err == nil {
		_, err = g.Objects.Create(t.Context(), key, bytes.NewReader(older), int64(len(older)), object.Attributes{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var seen []byte
	s := g.stewards[0]
	s.Look = func(context.Context) { seen, _ = g.Stored(t, key) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx, []string{g.channel}); close(ended) }()
	apitest.Eventually(t, "it is written anew", func() bool {
		data, _ := g.Stored(t, key)
		return bytes.Equal(data, newer)
	})
	cancel()
	<-ended
	if !bytes.Equal(seen, older) {
		t.Errorf("the server saw %s", seen)
	}
}
