//go:build !race

package optest

const raceDetector = false
