package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListDevices(t *testing.T) {
	out := runArgs(t, "--list-devices")
	require.Zero(t, out.code)
	require.Contains(t, out.stdout, "DEVICE")
	require.Contains(t, out.stdout, "cpu ")
}

// What cannot be printed is one error, even if a note follows the table.
func TestListDevicesOnAFullDisk(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		require.EqualError(t, listDevices(fullDisk{}, asJSON), errFullDisk.Error())
	}
}

var errFullDisk = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFullDisk }
