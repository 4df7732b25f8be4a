package model

import "time"

// SetPauses changes the pauses between tries to replace a device, and returns a function
// that changes them back.
func SetPauses(d ...time.Duration) func() {
	before := pauses
	pauses = d
	return func() { pauses = before }
}
