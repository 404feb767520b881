package servertest

import (
	"os"
	"path/filepath"
)

// HideKeys makes the private keys that match the patterns readable by their owner only. A
// checkout makes them readable by others, and tsmon refuses such keys.
func HideKeys(patterns ...string) error {
	for _, pattern := range patterns {
		keys, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := os.Chmod(key, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
