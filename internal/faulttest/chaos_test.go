//go:build cgo && !nogpu

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testprogram"
	"github.com/kompute-go/kompute-go/kompute"
)

// chaos is a device on which random programs run while calls fail, one program after
// the other. Only a lost device is replaced.
type chaos struct {
	ctx context.Context
	d   *kompute.Device
}

// FuzzFaults makes a call fail while a random program runs, op by op or replayed. What
// the program leaves is right, to the last bit, or its reading is an error with a
// reason; and the next program on the same device is right, unless the device was lost.
func FuzzFaults(f *testing.F) {
	f.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	control.Reset()
	c := &chaos{ctx: context.Background()}
	require.NoError(f, c.open())
	f.Cleanup(func() { require.NoError(f, c.d.Close()) })
	if testprogram.InFuzzWorker() {
		for _, code := range testprogram.Seeds() {
			for _, replayed := range []bool{false, true} {
				_, _, err := c.right(code, replayed)
				require.NoError(f, err)
			}
		}
	}
	layer := testprogram.Layer(1)
	for i := range uint16(8) {
		f.Add(layer, i, i*7, byte(i*5))
	}
	f.Fuzz(func(t *testing.T, code []byte, function, call uint16, kind byte) {
		if !testprogram.Valid(code) {
			return
		}
		var err error
		inTime(said(fmt.Sprint(code, function, call, kind)), func() { err = c.try(code, function, call, kind) })
		require.NoError(t, err, "%v, %d, %d, %d", code, function, call, kind)
	})
}

func (c *chaos) open() (err error) {
	c.d, err = kompute.Open("vulkan", kompute.WithStrict(), kompute.WithOverlap())
	return err
}

// right runs a program while nothing fails, and returns what it leaves and the calls
// that it made.
func (c *chaos) right(code []byte, replayed bool) ([][]float32, map[string]uint64, error) {
	control.Reset()
	p, err := testprogram.New(c.d, code)
	if err != nil {
		return nil, nil, err
	}
	left, err := p.Run(c.ctx, replayed)
	calls := control.Calls()
	return left, calls, errors.Join(err, p.Close())
}

// try runs one case. kind says how the program runs, whether all later calls of the
// function fail too, and with which result.
func (c *chaos) try(code []byte, function, call uint16, kind byte) error {
	replayed := kind&1 != 0
	want, _, err := c.right(code, replayed)
	if err != nil {
		return err
	}
	_, calls, err := c.right(code, replayed) // as it will be: its kernels and pools are there
	if err != nil {
		return err
	}
	if slices.ContainsFunc(want, hasNaN) {
		return nil // such numbers do not compare equal
	}
	functions := slices.Sorted(maps.Keys(calls))
	f := fault{function: functions[int(function)%len(functions)], times: 1}
	f.from = 1 + uint64(call)%calls[f.function]
	results := Results(f.function)
	f.result = results[int(kind/4)%len(results)]
	if kind&2 != 0 && f.result < 0 {
		f.times = ^uint64(0)
	}
	lost, err := c.fail(code, replayed, want, f)
	if err == nil && lost {
		_ = c.d.Close() // the error of a lost device
		err = c.open()
	}
	if err != nil {
		return fmt.Errorf("%v: %w", f, err)
	}
	again, _, err := c.right(code, replayed)
	switch {
	case err != nil:
		return fmt.Errorf("after %v: %w", f, err)
	case !slices.EqualFunc(again, want, slices.Equal[[]float32]):
		return fmt.Errorf("after %v: %w", f, errWrong)
	case c.live() != 0:
		return fmt.Errorf("after %v: %d tensors are left", f, c.d.Stats().LiveTensors)
	}
	return nil
}

// live counts tensors once those are collected whose views nobody closed.
func (c *chaos) live() int {
	for range 1000 {
		if c.d.Stats().LiveTensors == 0 {
			break
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	return c.d.Stats().LiveTensors
}

// fail runs the program with a fault, and reports whether the device may be lost.
func (c *chaos) fail(code []byte, replayed bool, want [][]float32, f fault) (lost bool, err error) {
	var got [][]float32
	control.Fail(f.function, f.from, f.times, f.result)
	p, ended := testprogram.New(c.d, code)
	if ended == nil {
		got, ended = p.Run(c.ctx, replayed)
	}
	control.Disarm()
	lost = f.result == deviceLost || errors.Is(ended, kompute.ErrDeviceLost)
	name, err := outcome(ended)
	if err != nil {
		return lost, err
	}
	if verbose {
		fmt.Fprintf(os.Stderr, "program %v, %d failed: %s\n", f, control.Failed(), name)
	}
	if ended == nil && len(got) != len(want) || !slices.EqualFunc(got, want[:len(got)], slices.Equal[[]float32]) {
		return lost, errWrong
	}
	if p == nil {
		return lost, nil
	}
	if err := c.left(p, want, lost); err != nil {
		return lost, fmt.Errorf("%w (the program: %w)", err, ended)
	}
	_, err = outcome(p.Close())
	return lost, err
}

// left checks what can be read after a program that ended somewhere.
func (c *chaos) left(p *testprogram.Program, want [][]float32, lost bool) error {
	out, err := p.Out(c.ctx)
	if err != nil {
		if _, err := outcome(err); err != nil {
			return err
		}
	} else if slices.ContainsFunc(out, func(v float32) bool { return v != 0 }) &&
		!slices.ContainsFunc(want, func(w []float32) bool { return slices.Equal(w[:len(out)], out) }) {
		return fmt.Errorf("%w in the result", errWrong)
	}
	first, err := p.Inputs(c.ctx)
	if err != nil {
		return allow(fmt.Errorf("inputs: %w", err), lost)
	}
	q, err := testprogram.New(c.d, p.Code())
	if err != nil {
		return allow(err, lost)
	}
	second, err := q.Inputs(c.ctx)
	if err == nil && !slices.Equal(first, second) {
		err = fmt.Errorf("%w in the inputs", errWrong)
	}
	return allow(errors.Join(err, q.Close()), lost)
}

func hasNaN(values []float32) bool {
	return slices.ContainsFunc(values, func(v float32) bool { return math.IsNaN(float64(v)) })
}
