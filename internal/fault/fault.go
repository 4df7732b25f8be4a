// Package fault turns accesses to unreadable memory, such as that of a mapped file that
// has shrunk, into errors. Without it, such an access ends the process.
package fault

import (
	"errors"
	"runtime"
	"runtime/debug"
)

// Err is the error of memory that cannot be read.
var Err = errors.New("memory cannot be read: has a mapped file shrunk?")

// Guard calls f, and returns Err if f touches memory that cannot be read. It covers
// only the calling goroutine.
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

// Is reports whether a panic was caused by touching memory that cannot be read,
// which panics only in a goroutine that has called debug.SetPanicOnFault. A nil
// pointer does not count.
func Is(value any) bool {
	e, ok := value.(runtime.Error)
	if !ok {
		return false
	}
	_, ok = e.(interface{ Addr() uintptr })
	return ok
}
