//go:build race

package ops_test

// raceDetector reports whether the race detector watches.
const raceDetector = true
