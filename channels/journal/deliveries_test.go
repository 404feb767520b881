package journal

import "testing"

// TestParts: only the keys that Feed writes say what comes together.
func TestParts(t *testing.T) {
	for key, want := range map[string]bool{
		"log/stable/0000000001-0000000002.part":  true,
		"log/stable/0000000002-0000000001.part":  false,
		"log/stable/0000000000-0000000001.part":  false,
		"log/stable/1-2.part":                    false,
		"log/stable/0000000001-0000000002.parts": false,
		"log/beta/0000000001-0000000002.part":    false,
	} {
		if p, ok := PartOf("stable", key); ok != want {
			t.Errorf("%s: %+v, %v", key, p, ok)
		}
	}
}
