//go:build race

package testlimit

const raceEnabled = true
