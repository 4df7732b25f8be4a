package kompute

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model's steps that have to do with streams: reads under way, events,
// regions, and streams that come and go.

// cacheReading is a pending read and its expected result.
type cacheReading struct {
	*Reading[float32]
	v       *cacheView
	want    []float32
	version int
}

// ReadAsync starts a read whose result later steps do not change.
func (m *cacheModel) ReadAsync(rt *rapid.T) {
	v := m.view(rt)
	if len(m.readings) >= 8 {
		rt.Skip("enough readings")
	}
	m.download(v.st)
	m.readings = append(m.readings, &cacheReading{v.Tensor.ReadAsync(m.stream(rt)), v, v.values(), v.st.version})
}

// Take waits for one.
func (m *cacheModel) Take(rt *rapid.T) {
	if len(m.readings) == 0 {
		rt.Skip("no readings")
	}
	m.take(rt, rapid.IntRange(0, len(m.readings)-1).Draw(rt, "reading"))
}

// take waits for a reading and compares it. If it read a whole storage that has not
// changed since, the host has the content.
func (m *cacheModel) take(rt *rapid.T, i int) {
	r := m.readings[i]
	m.readings = slices.Delete(m.readings, i, i+1)
	got, err := r.Wait(bg)
	require.NoError(rt, err)
	require.Equal(rt, r.want, got)
	if st := r.v.st; r.version == st.version && r.v.spans() && !st.mapped && st.views > 0 {
		st.host = true
	}
}

// Flush starts a stream's work.
func (m *cacheModel) Flush(rt *rapid.T) { require.NoError(rt, m.stream(rt).Flush()) }

// Synchronize waits for a stream's work.
func (m *cacheModel) Synchronize(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "seldom") == 0 {
		require.NoError(rt, m.stream(rt).Synchronize(bg))
	}
}

// Wait lets a stream wait for another one.
func (m *cacheModel) Wait(rt *rapid.T) { m.stream(rt).Wait(m.stream(rt).Record()) }

// Record keeps an event.
func (m *cacheModel) Record(rt *rapid.T) {
	if len(m.events) >= 6 {
		rt.Skip("enough events")
	}
	m.events = append(m.events, m.stream(rt).Record())
}

// WaitForEvent lets a stream, or the host, wait for one that was kept.
func (m *cacheModel) WaitForEvent(rt *rapid.T) {
	if len(m.events) == 0 {
		rt.Skip("no events")
	}
	i := rapid.IntRange(0, len(m.events)-1).Draw(rt, "event")
	if rapid.Bool().Draw(rt, "on the host") {
		require.NoError(rt, m.events[i].Wait(bg))
		require.True(rt, m.events[i].Done())
	} else {
		m.stream(rt).Wait(m.events[i])
	}
	m.events = slices.Delete(m.events, i, i+1)
}

// ReplaceStream closes a stream with its regions, and makes another one.
func (m *cacheModel) ReplaceStream(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "seldom") != 0 {
		rt.Skip("not now")
	}
	i := rapid.IntRange(0, len(m.streams)-1).Draw(rt, "stream")
	for _, r := range slices.Clone(m.regions) {
		if r.s == m.streams[i] {
			m.dropRegion(rt, r)
		}
	}
	require.NoError(rt, m.streams[i].Close())
	s, err := m.d.NewStream()
	require.NoError(rt, err)
	m.streams[i] = s
}

// cacheRegion is out = -(v + w) + w, with to = -(v + w) in between.
type cacheRegion struct {
	*Region
	s         *Stream
	v, w, to  *cacheView
	overwrite bool // to is written entirely, so its earlier content is not read
	out       *cacheView
	replayed  bool // out is one of the model's views
}

// Capture makes a region of views, one of which it updates.
func (m *cacheModel) Capture(rt *rapid.T) {
	v := m.view(rt)
	r := &cacheRegion{s: m.stream(rt), v: v, w: m.alike(rt, v), to: m.alike(rt, v)}
	if len(m.regions) >= 4 {
		rt.Skip("enough regions")
	}
	r.overwrite = r.to.whole() && rapid.Bool().Draw(rt, "overwrite")
	m.needDevice(r.v.st)
	m.needDevice(r.w.st)
	if !r.overwrite {
		m.needDevice(r.to.st)
	}
	var out *Tensor[float32]
	var err error
	r.Region, err = r.s.Capture(func(s *Stream) {
		neg := run(s, "neg", run(s, "add", r.v.Tensor, r.w.Tensor))
		access := InOut(r.to.View())
		if r.overwrite {
			access = Out(r.to.View())
		}
		s.Enqueue(makeOp("copy", In(neg.View()), access))
		out = Result(s, run(s, "add", neg, r.w.Tensor))
	})
	require.NoError(rt, err)
	require.NoError(rt, out.Err())
	st := &cacheStorage{data: make([]float32, out.Size()), views: 1}
	r.out = &cacheView{out, st, places(out.View().Layout())}
	m.regions = append(m.regions, r)
}

func (m *cacheModel) region(rt *rapid.T) *cacheRegion {
	if len(m.regions) == 0 {
		rt.Skip("no regions")
	}
	return m.regions[rapid.IntRange(0, len(m.regions)-1).Draw(rt, "region")]
}

// Replay replays a region, which is an error if one of its tensors was closed.
func (m *cacheModel) Replay(rt *rapid.T) {
	r := m.region(rt)
	times := rapid.IntRange(1, 3).Draw(rt, "times")
	for _, v := range []*cacheView{r.v, r.w, r.to, r.out} {
		if v.st.views == 0 {
			require.ErrorIs(rt, r.Region.ReplayN(bg, times), ErrClosed)
			m.forgetRegion(rt, r)
			return
		}
	}
	m.needDevice(r.v.st)
	m.needDevice(r.w.st)
	if !r.overwrite {
		m.needDevice(r.to.st)
	}
	require.NoError(rt, r.Region.ReplayN(bg, times))
	for range times {
		r.step()
	}
	if !r.replayed {
		r.replayed = true
		m.views = append(m.views, r.out)
	}
}

// step applies one replay to the model.
func (r *cacheRegion) step() {
	x, y := r.v.values(), r.w.values()
	for i := range x {
		x[i] = -(x[i] + y[i])
	}
	r.to.set(x)
	r.to.st.deviceWrote()
	y = r.w.values()
	for i := range x {
		x[i] += y[i]
	}
	r.out.set(x)
	r.out.st.deviceWrote()
}

// ReplayAgain replays in a steady state.
func (m *cacheModel) ReplayAgain(rt *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(rt, "replays") {
		m.Replay(rt)
	}
}

// CloseRegion closes a region with its work under way.
func (m *cacheModel) CloseRegion(rt *rapid.T) { m.forgetRegion(rt, m.region(rt)) }

func (m *cacheModel) forgetRegion(rt *rapid.T, r *cacheRegion) {
	require.NoError(rt, r.Region.Close())
	m.dropRegion(rt, r)
}

// dropRegion forgets a region that is closed, or will be with its stream.
func (m *cacheModel) dropRegion(rt *rapid.T, r *cacheRegion) {
	if !r.replayed {
		require.NoError(rt, r.out.Close())
	}
	i := slices.Index(m.regions, r)
	m.regions = slices.Delete(m.regions, i, i+1)
}
