package kompute

import (
	"hash/fnv"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Eight goroutines on four streams of a device replay regions between eager work,
// with sums whose rounding depends on their order: the result has the same bits
// every time.
func TestTwentyRepeatsGiveTheSameBits(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		var want [8]uint64
		for repeat := range 20 {
			got := repeatOnce(t, d)
			if repeat == 0 {
				want = got
			}
			require.Equal(t, want, got, "repeat %d", repeat)
		}
		require.NotEqual(t, want[0], want[1], "the work differs")
	}, WithWindow(7, 1<<40))
}

// repeatOnce returns a hash of what each goroutine has read.
func repeatOnce(t *testing.T, d *Device) (hashes [8]uint64) {
	var streams [4]*Stream
	for i := range streams {
		streams[i] = newStream(t, d)
		defer streams[i].Close()
	}
	shared, err := New(d, sevenths(500))
	require.NoError(t, err)
	defer shared.Close()
	var sums [8]*Tensor[float32]
	var regions [8]*Region
	for g := range 8 {
		sums[g], err = New(d, sevenths(500 + g)[g:])
		require.NoError(t, err)
		defer sums[g].Close()
		regions[g], err = streams[g%4].Capture(func(s *Stream) {
			x := run(s, "add", sums[g], shared)
			runInto(s, "add", sums[g], x, run(s, "add", x, sums[g]))
		})
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			h := fnv.New64a()
			for _, v := range repeatWork(t, streams, regions[g], sums[g], shared, g) {
				bits := math.Float32bits(v)
				_, _ = h.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
			}
			hashes[g] = h.Sum64()
		})
	}
	wg.Wait()
	return hashes
}

// repeatWork is the work of one goroutine: its sum, updated by its region and by
// eager ops on all streams in turn, and what it has read.
func repeatWork(t *testing.T, streams [4]*Stream, region *Region, sum, shared *Tensor[float32], g int) (seen []float32) {
	var readings []*Reading[float32]
	for round := range 12 {
		a, b := streams[(g+round)%4], streams[(g+2*round+1)%4]
		x := run(a, "add", sum, shared)
		if err := region.ReplayN(bg, 1+round%2); err != nil {
			t.Error(err)
		}
		runInto(b, "add", sum, sum, x)
		readings = append(readings, sum.ReadAsync(a))
		if round%4 == 3 {
			a.Wait(b.Record())
			now, err := x.Read(bg)
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, now...)
			runInto(a, "neg", sum, sum)
		}
		_ = x.Close()
	}
	for _, r := range readings {
		got, err := r.Wait(bg)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, got...)
	}
	return seen
}

// sevenths are numbers whose sums are rounded.
func sevenths(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i) / 7
	}
	return out
}
