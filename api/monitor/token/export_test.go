package token

// HoldLook keeps everybody from looking at the file until release is called.
func (k *Keys) HoldLook() (release func()) {
	k.looking.Lock()
	return k.looking.Unlock
}

// Create is what Open calls where it finds no file.
func Create(path string) error { return create(path) }
