//go:build !linux

package servertest

import (
	"syscall"
	"testing"
)

// Elsewhere PostgreSQL runs as the user who runs the test.

func chown(testing.TB, ...string) {}

func attributes(testing.TB) *syscall.SysProcAttr { return nil }
