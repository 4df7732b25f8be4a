//go:build !race

package testlimit

const raceEnabled = false
