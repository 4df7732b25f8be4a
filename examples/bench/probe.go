package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
)

// probeTimes is how often a probe runs at least, and probeTime for how long, since a GPU that was idle first has to raise
// its clocks; the fastest run counts.
const (
	probeTimes = 7
	probeTime  = 80 * time.Millisecond
)

// probe measures the device's peak rates with kernels that no op uses: a stream of as many bytes as the largest ops
// read and write, float32 arithmetic and tensor cores.
func (r *roofline) probe(ctx context.Context, m *kompute.Manager, elements int) error {
	if r.Backend == "cpu" {
		rate, err := streamRateOfHost(elements)
		r.StreamRate = rate
		return err
	}
	for _, p := range []struct {
		kernel string
		rate   *float64
		run    func(context.Context, *kompute.Manager, []uint32) (float64, error)
	}{
		{"probe_stream", &r.StreamRate, func(ctx context.Context, m *kompute.Manager, code []uint32) (float64, error) {
			return streamRate(ctx, m, code, elements)
		}},
		{"probe_float", &r.FloatRate, floatRate},
		{"probe_matrix", &r.MatrixRate, matrixRate},
	} {
		code := m.Device().KernelCode(p.kernel)
		if code == nil {
			continue // no tensor cores
		}
		rate, err := p.run(ctx, m, code)
		if err != nil {
			return fmt.Errorf("%s: %w", p.kernel, err)
		}
		*p.rate = rate
	}
	return nil
}

func streamRate(ctx context.Context, m *kompute.Manager, code []uint32, elements int) (float64, error) {
	const threads = 256
	const block = 4 * 4 * threads // words of a workgroup
	words := max(elements/block, 1) * block
	took, err := timeProbe(ctx, m, code, words, words, uint32(words/block), []uint32{threads}, uint32(words/4))
	return 8 * float64(words) / took.Seconds(), err
}

// probeGroups returns how many workgroups a probe has, and the rounds of each: enough to keep a GPU
// busy, and few on a CPU driver, where these would take long.
func probeGroups(m *kompute.Manager) (groups, rounds uint32) {
	if m.Device().Info().Type == "cpu" {
		return 16, 256
	}
	return 132 * 16, 4096
}

func floatRate(ctx context.Context, m *kompute.Manager, code []uint32) (float64, error) {
	const threads = 256
	groups, rounds := probeGroups(m)
	took, err := timeProbe(ctx, m, code, 128, 256, groups, []uint32{threads}, rounds)
	return 2 * 8 * threads * float64(groups) * float64(rounds) / took.Seconds(), err
}

func matrixRate(ctx context.Context, m *kompute.Manager, code []uint32) (float64, error) {
	const subgroups = 4
	groups, rounds := probeGroups(m)
	took, err := timeProbe(ctx, m, code, 256, 8*256, groups, []uint32{subgroups * uint32(m.Device().Info().SubgroupSize)}, rounds)
	return 2 * 8 * 16 * 16 * 16 * subgroups * float64(groups) * float64(rounds) / took.Seconds(), err
}

// timeProbe returns the device's time of the fastest run of a kernel that reads `in` words and writes `out`.
func timeProbe(ctx context.Context, m *kompute.Manager, code []uint32, in, out int, groups uint32, spec []uint32, push ...uint32) (time.Duration, error) {
	x, err := kompute.New(m.Device(), make([]uint32, in), in)
	if err != nil {
		return 0, err
	}
	defer x.Close()
	y, err := kompute.New(m.Device(), make([]uint32, out), out)
	if err != nil {
		return 0, err
	}
	defer y.Close()
	algorithm, err := m.Algorithm([]kompute.AnyTensor{x, y}, code, kompute.WithWorkgroups(groups, 1, 1),
		kompute.WithSpecializationConstants(spec...), kompute.WithPushConstants(push...))
	if err != nil {
		return 0, err
	}
	defer algorithm.Close()
	var times []time.Duration
	for start := time.Now(); len(times) < probeTimes || time.Since(start) < probeTime; {
		before := m.Device().Stats().OpTimes["custom"].Time
		q := m.Sequence()
		err := q.Record(kompute.Dispatch(algorithm)).Eval(ctx)
		if err = errors.Join(err, q.Close()); err != nil {
			return 0, err
		}
		times = append(times, m.Device().Stats().OpTimes["custom"].Time-before)
	}
	return max(slices.Min(times), 1), nil
}

// streamRateOfHost is the rate at which one thread copies.
func streamRateOfHost(elements int) (float64, error) {
	from, to := make([]uint32, elements), make([]uint32, elements)
	for i := range from {
		from[i] = uint32(i)
	}
	best := time.Duration(1 << 62)
	for range probeTimes {
		start := time.Now()
		copy(to, from)
		best = min(best, time.Since(start))
	}
	return 8 * float64(elements) / max(best.Seconds(), 1e-9), nil
}
