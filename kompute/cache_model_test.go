package kompute

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
)

// cacheNumbers are the values of tensors, without subnormal numbers, which a device
// may flush to zero.
var cacheNumbers = rapid.Map(rapid.IntRange(-512, 512), func(i int) float32 { return float32(i) / 64 })

// modelSteps is how many steps the model test takes on each device, unless
// KOMPUTE_GO_MODEL_STEPS says otherwise: a longer run may ask for 100,000.
const modelSteps = 2000

// TestTensorCacheAgainstAModel drives random work over several streams and
// compares every read with plain Go slices. KOMPUTE_GO_MODEL_SEED repeats the run
// whose log named that seed.
func TestTensorCacheAgainstAModel(t *testing.T) {
	steps, seed := modelSteps, time.Now().UnixNano()
	if s := os.Getenv("KOMPUTE_GO_MODEL_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		steps = n
	}
	if s := os.Getenv("KOMPUTE_GO_MODEL_SEED"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	onDevices(t, func(t *testing.T, d *Device) {
		begin, taken := time.Now(), 0
		streams := []*Stream{newStream(t, d), newStream(t, d), newStream(t, d)}
		withRapidFlag(t, "rapid.checks", "20")
		withRapidFlag(t, "rapid.nofailfile", "true")
		withRapidFlag(t, "rapid.steps", "100")
		for round := int64(0); taken < steps; round++ {
			withRapidFlag(t, "rapid.seed", strconv.FormatInt(seed+round, 10))
			rapid.Check(t, func(rt *rapid.T) {
				m := &cacheModel{d: d, streams: streams, owns: d.Backend() == "vulkan", taken: &taken}
				rt.Repeat(m.actions())
				m.finish(rt)
			})
			if t.Failed() {
				t.Fatalf("seed %d", seed+round)
			}
		}
		for _, s := range streams {
			require.NoError(t, s.Err())
		}
		t.Logf("%d steps from seed %d in %v", taken, seed, time.Since(begin).Round(time.Millisecond))
	})
}

// withRapidFlag sets one of rapid's flags until the end of the test.
func withRapidFlag(t *testing.T, name, value string) {
	before := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, value))
	t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
}

// cacheModel is what the tensor cache should hold: values, and whether host or
// device has them.
type cacheModel struct {
	d        *Device
	streams  []*Stream
	views    []*cacheView
	readings []*cacheReading
	events   []*Event
	regions  []*cacheRegion
	owns     bool // the device has memory of its own, so that copies can be counted
	taken    *int // steps so far, over all runs

	uploads   uint64 // of this step
	downloads uint64 // upper bound: parts that were read need no second download
}

// cacheStorage is memory that views share.
type cacheStorage struct {
	data         []float32
	host, device bool // which side has the newest content
	mapped       bool // host and device share the memory
	views        int  // open ones
	version      int  // of the content
}

// cacheView is a tensor and where its elements are in the storage.
type cacheView struct {
	*Tensor[float32]
	st *cacheStorage
	at []int
}

// places lists where the elements of a layout are, in row-major order.
func places(l array.Layout) []int {
	out := []int{l.Offset}
	for i, n := range l.Shape {
		next := make([]int, 0, len(out)*n)
		for _, at := range out {
			for k := range n {
				next = append(next, at+k*l.Strides[i])
			}
		}
		out = next
	}
	return out
}

// values are the numbers that a view should have.
func (v *cacheView) values() []float32 {
	out := make([]float32, len(v.at))
	for i, at := range v.at {
		out[i] = v.st.data[at]
	}
	return out
}

func (v *cacheView) set(values []float32) {
	for i, at := range v.at {
		v.st.data[at] = values[i]
	}
}

// whole reports whether the view has every element of its storage.
func (v *cacheView) whole() bool { return len(v.at) == len(v.st.data) }

// spans reports whether a read of the view reads all of its storage: it begins at
// a multiple of 16 bytes.
func (v *cacheView) spans() bool {
	return slices.Min(v.at) < 4 && slices.Max(v.at) == len(v.st.data)-1
}

// pieces is how many runs of elements that lie together the view has.
func (v *cacheView) pieces() uint64 {
	l, n, dense := v.View().Layout(), 1, 1
	axis := l.Rank()
	for axis > 0 && (l.Shape[axis-1] == 1 || l.Strides[axis-1] == dense) {
		axis--
		dense *= l.Shape[axis]
	}
	for _, d := range l.Shape[:axis] {
		n *= d
	}
	return uint64(n)
}

// meets reports whether two views share elements.
func (v *cacheView) meets(w *cacheView) bool {
	return v.st == w.st && slices.ContainsFunc(v.at, func(at int) bool { return slices.Contains(w.at, at) })
}

// actions are those of the model. Each is counted, and is followed by a check of
// what was copied.
func (m *cacheModel) actions() map[string]func(*rapid.T) {
	all := rapid.StateMachineActions(m)
	for name, action := range all {
		if name == "" {
			continue
		}
		all[name] = func(rt *rapid.T) {
			before := m.d.Stats()
			m.uploads, m.downloads = 0, 0
			action(rt)
			*m.taken++
			after := m.d.Stats()
			require.Equal(rt, m.uploads, after.Uploads-before.Uploads, "the device gets what it lacks, and nothing else")
			require.LessOrEqual(rt, after.Downloads-before.Downloads, m.downloads, "downloads of what the host has")
		}
	}
	return all
}

// Check is part of the state machine.
func (m *cacheModel) Check(*rapid.T) {}

// finish compares everything that is still open, and closes it.
func (m *cacheModel) finish(rt *rapid.T) {
	for len(m.readings) > 0 {
		m.take(rt, 0)
	}
	for _, v := range m.views {
		m.compare(rt, v)
		require.NoError(rt, v.Close())
	}
	for len(m.regions) > 0 {
		m.forgetRegion(rt, m.regions[0])
	}
	for _, ev := range m.events {
		require.NoError(rt, ev.Wait(bg))
	}
}

func (m *cacheModel) compare(rt *rapid.T, v *cacheView) {
	m.readBy(v)
	got, err := v.Read(bg)
	require.NoError(rt, err)
	require.Equal(rt, v.values(), got)
}

// readBy notes that the host reads a view at once: a download, unless the host has
// the content. After reading a whole storage it has it.
func (m *cacheModel) readBy(v *cacheView) {
	m.download(v.st)
	if v.spans() && !v.st.mapped {
		v.st.host = true
	}
}

// download notes a download, unless the host has the content.
func (m *cacheModel) download(st *cacheStorage) {
	if m.owns && !st.host {
		m.downloads++
	}
}

// needDevice notes that the device needs the content: an upload, unless it has it.
func (m *cacheModel) needDevice(st *cacheStorage) {
	if m.owns && !st.device {
		m.uploads++
	}
	st.device = true
}

// deviceWrote notes that work changes the content.
func (st *cacheStorage) deviceWrote() {
	st.host, st.device = false, true
	st.version++
}

// mostPieces is how many pieces of a storage the host writes where only the device
// has it, without reading all of it first.
const mostPieces = 64

// hostWrites notes that the host writes a view.
func (m *cacheModel) hostWrites(v *cacheView, values []float32) {
	st := v.st
	switch {
	case v.whole() && !st.mapped:
		st.host, st.device = true, false
	case st.host:
		st.device = false
	case v.pieces() <= mostPieces || st.mapped:
		if m.owns {
			m.uploads += v.pieces()
		}
		st.device = true
	default:
		m.download(st)
		st.host, st.device = true, false
	}
	st.version++
	v.set(values)
}

func (m *cacheModel) view(rt *rapid.T) *cacheView {
	if len(m.views) == 0 {
		rt.Skip("no views")
	}
	return m.views[rapid.IntRange(0, len(m.views)-1).Draw(rt, "view")]
}

func (m *cacheModel) stream(rt *rapid.T) *Stream {
	return m.streams[rapid.IntRange(0, len(m.streams)-1).Draw(rt, "stream")]
}

// alike draws a view of the same shape as another.
func (m *cacheModel) alike(rt *rapid.T, v *cacheView) *cacheView {
	var fit []*cacheView
	for _, w := range m.views {
		if slices.Equal(v.Shape(), w.Shape()) {
			fit = append(fit, w)
		}
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(rt, "other view")]
}

// room skips steps that make views when there are already many.
func (m *cacheModel) room(rt *rapid.T) {
	if len(m.views) >= 16 {
		rt.Skip("enough views")
	}
}

func (m *cacheModel) add(rt *rapid.T, x *Tensor[float32], st *cacheStorage) {
	require.NoError(rt, x.Err())
	st.views++
	m.views = append(m.views, &cacheView{x, st, places(x.View().Layout())})
}
