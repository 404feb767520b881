package equation

import "slices"

// Keys returns the keys that the equation uses.
func (e *Equation) Keys() []string { return slices.Clone(e.keys) }
