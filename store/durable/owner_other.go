//go:build !unix

package durable

import "os"

// keepOwner does nothing: a file inherits its owner from its folder.
func keepOwner(*os.File, string) error { return nil }
