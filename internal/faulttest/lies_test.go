//go:build cgo && !nogpu

package faulttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

// TestFalseAnswers has the driver give answers that no driver should give, while a
// device is listed, opened and used: they end in an error with a reason or do no harm,
// and the next device works.
func TestFalseAnswers(t *testing.T) {
	for _, lie := range []string{
		"no devices", "no extensions", "no features", "an old device", "names without end",
		"limits of 0", "limits without end", "subgroups of 0",
		"no queue families", "families without queues", "no queue",
		"no memory types", "memory types without end", "no memory for the host", "no memory of the device",
		"empty heaps", "heaps that are not there", "buffers of no memory type", "buffers without end", "memory mapped nowhere",
		"a pipeline cache without end", "counters of 0", "times of 0",
	} {
		t.Run(lie, func(t *testing.T) {
			control.Reset()
			control.Lie(lie)
			inTime(said(lie), func() {
				for _, run := range []func(*job) error{eager, region, mapped, profile} {
					err := opened(run)
					_, wrong := outcome(err)
					require.NoError(t, wrong)
					t.Log(err)
				}
			})
			require.Positive(t, control.Lies())
			control.Lie("")
			require.NoError(t, opened(eager))
		})
	}
}

type said string

func (s said) String() string { return string(s) }

// opened runs the workload on a device of its own, and returns the first error.
func opened(run func(*job) error) error {
	d, err := kompute.Open("vulkan")
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // the error of a poisoned stream
	j := &job{ctx: context.Background(), d: d}
	if err := run(j); err != nil {
		return err
	}
	return j.check(nil, false)
}
