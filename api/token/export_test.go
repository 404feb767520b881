package token

import "time"

// HoldLook keeps everybody from looking at the file until release is called.
func (k *Keys) HoldLook() (release func()) {
	k.looking.Lock()
	return k.looking.Unlock
}

// Create is what Open calls where it finds no file.
func Create(path string) error { return create(path) }

// SetLockWait changes how long a rotation waits, until restore is called.
func SetLockWait(d time.Duration) (restore func()) {
	before := lockWait
	lockWait = d
	return func() { lockWait = before }
}
