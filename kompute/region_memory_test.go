package kompute

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTransientsShareMemory(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(1000))
	var out *Tensor[float32]
	r := captureTest(t, s, func(s *Stream) {
		y := x
		for range 9 {
			y = run(s, "neg", y)
		}
		out = closing(t, Result(s, run(s, "neg", y)))
	})
	require.EqualValues(t, 2*4032, r.Stats().TransientBytes)
	require.EqualValues(t, 9*4032, r.Stats().TransientBytesUnplanned)
	replayN(t, r, 2)
	require.Equal(t, upTo(1000), read(t, out))
}

// Regions of a stream share memory, and each finds its own tensors there whatever ran before.
func TestRegionsShareMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		const n = 1 << 15
		x := tensor(t, d, make([]float32, n))
		outs, regions := make([]*Tensor[float32], 3), make([]*Region, 3)
		reserved := int64(0)
		for i := range regions {
			regions[i] = captureTest(t, s, func(s *Stream) {
				sums := []*Tensor[float32]{run(s, "add", x, x)}
				for range 8 - 2*i { // the first needs the most memory
					sums = append(sums, run(s, "add", sums[len(sums)-1], x))
				}
				out := sums[0]
				for _, y := range sums[1:] {
					out = run(s, "add", out, y)
				}
				outs[i] = closing(t, Result(s, out))
			})
			if i == 0 {
				reserved = d.Stats().ReservedBytes + regions[0].Stats().TransientBytes
			}
		}
		require.Greater(t, regions[0].Stats().TransientBytes, int64(3*4*n))
		require.Less(t, d.Stats().ReservedBytes, reserved)
		if d.Backend() == "cpu" {
			require.Same(t, regions[0].cpu.arena, regions[2].cpu.arena)
		}
		for round := range 6 {
			require.NoError(t, x.Write(bg, slices.Repeat([]float32{float32(round)}, n)))
			for i := range regions {
				replayN(t, regions[(i+round)%3], 1)
			}
			for i, out := range outs {
				k := float32(8 - 2*i)
				require.Equal(t, slices.Repeat([]float32{float32(round) * (k + 1) * (k + 4) / 2}, n), read(t, out))
			}
		}
	})
}

// Memory of a region that was closed while its replays run is free when they are done. A capture that needs it waits.
func TestACaptureWaitsForMemory(t *testing.T) {
	for name, capture := range map[string]func(s *Stream, x *Tensor[float32], n int) []*Tensor[float32]{
		"transients": func(s *Stream, x *Tensor[float32], n int) []*Tensor[float32] {
			var list []*Tensor[float32]
			for range n + 2 {
				list = append(list, run(s, "neg", x))
			}
			y := list[0]
			for _, z := range list[1:] {
				y = run(s, "add", y, z)
			}
			return []*Tensor[float32]{Result(s, y)}
		},
		"results": func(s *Stream, x *Tensor[float32], n int) (results []*Tensor[float32]) {
			for range n {
				results = append(results, Result(s, run(s, "neg", x)))
			}
			return results
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := vulkanOrSkip(t, WithMemoryBudget(map[string]int64{"transients": 160 << 20, "results": 64 << 20}[name]))
			s := newStream(t, d)
			x := tensor(t, d, make([]float32, 1<<22))
			for _, n := range []int{1, 3} {
				var results []*Tensor[float32]
				r := captureTest(t, s, func(s *Stream) { results = capture(s, x, n) })
				require.NoError(t, r.ReplayN(bg, 5))
				require.NoError(t, r.Close())
				for _, y := range results {
					require.NoError(t, y.Close())
				}
			}
		})
	}
}

// Transients that are alive at the same time never share bytes.
func TestPlannedTransientsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]transient, rapid.IntRange(0, 12).Draw(t, "tensors"))
		first := 0
		for i := range list {
			first += rapid.IntRange(0, 2).Draw(t, "gap")
			list[i] = transient{
				bytes: rapid.IntRange(1, 300).Draw(t, "bytes"), first: first,
				last: first + rapid.IntRange(0, 5).Draw(t, "length"),
			}
		}
		bytes, unplanned := planTransients(list, true)
		require.LessOrEqual(t, bytes, unplanned)
		for i, a := range list {
			require.LessOrEqual(t, a.offset+a.bytes, bytes)
			for _, b := range list[:i] {
				together := a.first <= b.last && b.first <= a.last
				apart := a.offset+a.bytes <= b.offset || b.offset+b.bytes <= a.offset
				require.True(t, !together || apart, fmt.Sprint(a, b))
			}
		}
	})
}
