package kompute

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The steps of the model that make, read, write and close tensors.

// New makes a tensor from the host.
func (m *cacheModel) New(rt *rapid.T) {
	m.room(rt)
	shape := rapid.SampledFrom([][]int{{4, 6}, {4, 6}, {2, 3, 4}, {6, 4}, {5}, {150}}).Draw(rt, "shape")
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := rapid.SliceOfN(cacheNumbers, n, n).Draw(rt, "data")
	x, err := New(m.d, data, shape...)
	require.NoError(rt, err)
	m.add(rt, x, &cacheStorage{data: slices.Clone(data), host: true})
}

// View makes a view of a view.
func (m *cacheModel) View(rt *rapid.T) {
	v := m.view(rt)
	m.room(rt)
	var x *Tensor[float32]
	axis := rapid.IntRange(0, max(v.Rank()-1, 0)).Draw(rt, "axis")
	switch kind := rapid.IntRange(0, 4).Draw(rt, "kind"); {
	case kind == 0 || v.Rank() == 0:
		x = v.Transpose()
	case kind == 1:
		lo := rapid.IntRange(0, v.Dim(axis)).Draw(rt, "start")
		x = v.Slice(axis, lo, rapid.IntRange(lo, v.Dim(axis)).Draw(rt, "stop"))
	case kind == 2:
		x = v.SliceStep(axis, 0, v.Dim(axis), rapid.IntRange(1, 3).Draw(rt, "step"))
	case kind == 3:
		if x = v.Reshape(-1); x.Err() != nil {
			rt.Skip("it needs a copy")
		}
	default:
		x = v.ExpandDims(axis)
	}
	if x.Rank() > 5 || x.Size() == 0 {
		_ = x.Close()
		rt.Skip("nothing to see")
	}
	m.add(rt, x, v.st)
}

// Op makes a tensor by an op on views.
func (m *cacheModel) Op(rt *rapid.T) {
	v := m.view(rt)
	w := m.alike(rt, v)
	m.room(rt)
	m.needDevice(v.st)
	m.needDevice(w.st)
	out := &cacheStorage{device: true}
	x, y := v.values(), w.values()
	for i := range x {
		out.data = append(out.data, x[i]+y[i])
	}
	m.add(rt, run(m.stream(rt), "add", v.Tensor, w.Tensor), out)
}

// Copy makes a tensor with the elements of a view.
func (m *cacheModel) Copy(rt *rapid.T) {
	v := m.view(rt)
	m.room(rt)
	m.needDevice(v.st)
	m.add(rt, run(m.stream(rt), "copy", v.Tensor), &cacheStorage{data: v.values(), device: true})
}

// NewMapped makes a tensor in memory that both sides see.
func (m *cacheModel) NewMapped(rt *rapid.T) {
	m.room(rt)
	x, err := NewMapped[float32](m.d, 4, 6)
	require.NoError(rt, err)
	st := &cacheStorage{data: make([]float32, 24), device: true, mapped: true}
	m.add(rt, x.Tensor(), st)
	v := m.views[len(m.views)-1]
	data := rapid.SliceOfN(cacheNumbers, 24, 24).Draw(rt, "data")
	require.NoError(rt, x.Tensor().Write(bg, data))
	m.hostWrites(v, data)
}

// Write lets an op write through a view, which may be a part of what it reads.
func (m *cacheModel) Write(rt *rapid.T) {
	from := m.view(rt)
	to := m.alike(rt, from)
	if from.meets(to) && !slices.Equal(from.at, to.at) {
		rt.Skip("they overlap")
	}
	m.needDevice(from.st)
	m.needDevice(to.st)
	runInto(m.stream(rt), "neg", to.Tensor, from.Tensor)
	to.set(negatives(from.values()))
	to.st.deviceWrote()
}

func negatives(values []float32) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = -v
	}
	return out
}

// Overwrite lets an op write a whole storage, which is not uploaded first.
func (m *cacheModel) Overwrite(rt *rapid.T) {
	from := m.view(rt)
	to := m.alike(rt, from)
	if from.st == to.st || !to.whole() {
		rt.Skip("not all of another storage")
	}
	m.needDevice(from.st)
	m.stream(rt).Enqueue(makeOp("copy", In(from.Tensor.View()), Out(to.Tensor.View())))
	to.set(from.values())
	to.st.deviceWrote()
}

// HostWrite writes through a view from the host.
func (m *cacheModel) HostWrite(rt *rapid.T) {
	v := m.view(rt)
	data := rapid.SliceOfN(cacheNumbers, len(v.at), len(v.at)).Draw(rt, "data")
	m.hostWrites(v, data)
	require.NoError(rt, v.Tensor.Write(bg, data))
}

// Read compares a view, which may be a part of its storage.
func (m *cacheModel) Read(rt *rapid.T) { m.compare(rt, m.view(rt)) }

// ReadInto is Read into the caller's memory.
func (m *cacheModel) ReadInto(rt *rapid.T) {
	v := m.view(rt)
	m.readBy(v)
	got := make([]float32, len(v.at))
	require.NoError(rt, v.Tensor.ReadInto(bg, got))
	require.Equal(rt, v.values(), got)
}

// Fallback negates a view by an op that only the CPU can run.
func (m *cacheModel) Fallback(rt *rapid.T) {
	v := m.view(rt)
	m.download(v.st) // two operands, read before either is taken
	m.readBy(v)
	view := v.Tensor.View()
	m.stream(rt).Enqueue(Op{Name: "only_on_the_cpu", Args: []Arg{In(view), InOut(view)}, CPU: testOps["neg"]})
	m.hostWrites(v, negatives(v.values()))
}

// Upload uploads a tensor early.
func (m *cacheModel) Upload(rt *rapid.T) {
	v := m.view(rt)
	m.needDevice(v.st)
	m.stream(rt).Upload(v.Tensor)
}

// Close closes a view, perhaps the last of its storage, perhaps with work on it
// pending.
func (m *cacheModel) Close(rt *rapid.T) {
	v := m.view(rt)
	if len(m.views) < 12 && rapid.IntRange(0, 2).Draw(rt, "seldom") != 0 {
		rt.Skip("few views")
	}
	require.NoError(rt, v.Tensor.Close())
	v.st.views--
	i := slices.Index(m.views, v)
	m.views = slices.Delete(m.views, i, i+1)
}
