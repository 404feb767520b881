package servertest

import (
	"os"
	"path/filepath"
)

// HideKeys lets nobody but their owner read the private keys that patterns match: a
// checkout gives them the modes of other files, and tsmon refuses a key that others can read.
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
