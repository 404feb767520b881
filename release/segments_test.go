package release

import (
	"testing"

	"tsmon/store/object/objecttest"
)

// TestMovesMakeSegments: the move that completes the entries of a segment writes the segment.
// The log is then read and verified with it.
func TestMovesMakeSegments(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage.tar.gz"))
	d.part(t, "1.1.0", steps(5))
	segment := func() bool {
		_, found := objecttest.Tree(t, d.Store)["segments/stable/0000000001-0000000256.zst"]
		return found
	}
	sequence := uint64(2)
	for sequence < 256 {
		if sequence == 255 && segment() {
			t.Fatalf("there is a segment after entry %d", sequence)
		}
		report, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(5 + int(sequence)%50)})
		if err != nil {
			t.Fatal(err)
		}
		sequence = report.Sequence
	}
	if !segment() {
		t.Error("there is no segment")
	}
	if head := d.log(t, "stable").Head(); head.Sequence != 256 {
		t.Errorf("the log ends at %d", head.Sequence)
	}
	d.sound(t, "stable")
}
