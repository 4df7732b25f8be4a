package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A replay allocates nothing, on the CPU and on Vulkan, and neither does an event.
func TestReplayAllocatesNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, y := tensor(t, d, upTo(64)), tensor(t, d, upTo(64))
		op := makeOp("neg", In(x.View()), Out(y.View()))
		op.CPU = nothing
		r := captureTest(t, s, func(s *Stream) { s.Enqueue(op) })
		replayN(t, r, 4)
		require.NoError(t, s.Synchronize(bg))
		before, device := s.Stats(), d.Stats().Allocations
		require.Less(t, testing.AllocsPerRun(50, func() { _ = r.Replay(bg) }), 0.5)
		require.NoError(t, s.Synchronize(bg))
		var ev Event
		require.Less(t, testing.AllocsPerRun(50, func() { s.RecordInto(&ev) }), 0.5)
		require.NoError(t, ev.Wait(bg))
		after := s.Stats()
		require.Equal(t, before.DescriptorWrites, after.DescriptorWrites)
		require.Equal(t, before.RecordedCommands, after.RecordedCommands)
		require.Equal(t, device, d.Stats().Allocations)
		require.EqualValues(t, 51, after.Submits-before.Submits)
	})
}

// manyWeights captures a region that adds 300 weights to x.
func manyWeights(t *testing.T, s *Stream, x *Tensor[float32]) (*Region, []*Tensor[float32]) {
	weights := make([]*Tensor[float32], 300)
	loader := newStream(t, s.dev)
	for i := range weights {
		var err error
		weights[i], err = New(s.dev, []float32{1, 1}, 2)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, weights[i].Close()) })
		loader.Upload(weights[i])
	}
	require.NoError(t, loader.Close())
	return captureTest(t, s, func(s *Stream) {
		for _, w := range weights {
			runInto(s, "add", x, x, w)
		}
	}), weights
}

// Steady replays check no tensors: nothing is allocated, and no tensor's state is
// looked up.
func TestSteadyReplaysLookAtNoTensor(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, []float32{0, 0}, 2)
		r, _ := manyWeights(t, s, x)
		replay(t, r)
		replay(t, r)
		require.NoError(t, s.Synchronize(bg))
		before := d.Stats()
		require.Less(t, testing.AllocsPerRun(20, func() { _ = r.Replay(bg) }), 0.5)
		require.NoError(t, s.Synchronize(bg))
		after := d.Stats()
		require.Equal(t, before.CacheHits, after.CacheHits)
		require.Equal(t, before.CacheMisses, after.CacheMisses)
		require.Equal(t, before.Uploads, after.Uploads)
		require.Equal(t, before.Allocations, after.Allocations)
		require.Equal(t, []float32{23 * 300, 23 * 300}, read(t, x))
	})
}

// But the next replay sees everything that happens to one of its tensors.
func TestSteadyReplaysNoticeWhatHappens(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s, other := newStream(t, d), newStream(t, d)
		x := tensor(t, d, []float32{0, 0}, 2)
		r, weights := manyWeights(t, s, x)
		want := float32(0)
		steady := func() {
			t.Helper()
			for range 3 {
				replay(t, r)
				want += 300
			}
		}
		check := func(what string) {
			t.Helper()
			require.Equal(t, []float32{want, want}, read(t, x), what)
		}
		steady()
		check("steady")

		require.NoError(t, weights[17].Write(bg, []float32{11, 11}))
		replay(t, r)
		want += 310
		check("an input that the host wrote")
		require.NoError(t, weights[17].Write(bg, []float32{1, 1}))
		steady()

		runInto(other, "add", weights[250], weights[250], weights[0])
		replay(t, r)
		want += 301
		check("an input that another stream wrote")
		require.NoError(t, weights[250].Write(bg, []float32{1, 1}))
		steady()

		runInto(other, "neg", x, x)
		replay(t, r)
		want = -want + 300
		check("what it updates, written by another stream")
		steady()

		doubled := closing(t, run(other, "add", x, x)) // a reader that the next replay comes after
		replay(t, r)
		require.Equal(t, []float32{2 * want, 2 * want}, read(t, doubled), "another stream's read")
		want += 300
		check("behind it")
		steady()

		bad := newStream(t, d)
		runInto(bad, "copy", weights[3], weights[4])
		steady()
		check("an input that is made by another stream")
		require.NoError(t, s.Synchronize(bg)) // later replays would fail
		bad.Fail(errTest)
		require.ErrorIs(t, r.Replay(bg), errTest, "the stream that makes an input has failed")
		require.NoError(t, s.Err())
		require.NoError(t, weights[3].Write(bg, []float32{1, 1}))
		steady()
		check("new content from the host")

		require.NoError(t, weights[200].Close())
		for range 2 {
			require.ErrorIs(t, r.Replay(bg), ErrClosed)
		}
		check("nothing has run")
	})
}
