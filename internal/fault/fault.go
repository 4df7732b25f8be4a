// Package fault makes errors of memory that cannot be read: that of a mapped file
// which has shrunk since. Without it, touching such memory ends the process.
package fault

import (
	"errors"
	"runtime"
	"runtime/debug"
)

// Err is the error of memory that cannot be read.
var Err = errors.New("memory cannot be read: has a mapped file shrunk?")

// Guard calls f, and returns Err if f touches memory that cannot be read. It counts
// for the calling goroutine alone.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			if !Is(value) {
				panic(value)
			}
			err = Err
		}
	}()
	return f()
}

// Is reports whether a panic is a touch of memory that cannot be read, which it is
// only in a goroutine that has called debug.SetPanicOnFault. A nil pointer is none.
func Is(value any) bool {
	e, ok := value.(runtime.Error)
	if !ok {
		return false
	}
	_, ok = e.(interface{ Addr() uintptr })
	return ok
}
