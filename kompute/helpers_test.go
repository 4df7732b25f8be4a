package kompute

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// The time limit for something that must happen, and how often to check for it.
const (
	waitLimit = 10 * time.Second
	waitStep  = time.Millisecond
)

// testOps are the host's implementations of the ops that tests enqueue. The
// names are those of native ops where there is one.
var testOps = map[string]func([]array.Array, []byte) error{
	"copy": func(a []array.Array, _ []byte) error {
		return each(a, func(x ...float32) float32 { return x[0] })
	},
	"neg": func(a []array.Array, _ []byte) error {
		return each(a, func(x ...float32) float32 { return -x[0] })
	},
	"add": func(a []array.Array, _ []byte) error {
		return each(a, func(x ...float32) float32 { return x[0] + x[1] })
	},
	"fail": func([]array.Array, []byte) error { return errTest },
	"panic": func([]array.Array, []byte) error {
		workers.For(64, 1e6, func(lo, hi int) {
			if lo <= 40 && 40 < hi {
				panic("broken on purpose")
			}
		})
		return nil
	},
	"only_on_the_cpu": func(a []array.Array, _ []byte) error {
		return each(a, func(x ...float32) float32 { return -x[0] })
	},
}

var errTest = errors.New("made to fail")

// each sets the last array to f of the others, element by element.
func each(arrays []array.Array, f func(...float32) float32) error {
	n := len(arrays) - 1
	columns := make([][]float32, n)
	for i, a := range arrays[:n] {
		columns[i] = make([]float32, a.Size())
		gather(columns[i], array.Storage[float32](a), a.Layout)
	}
	out := make([]float32, arrays[n].Size())
	x := make([]float32, n)
	for k := range out {
		for i := range x {
			x[i] = columns[i][k]
		}
		out[k] = f(x...)
	}
	scatterBytes(arrays[n].Data, array.Bytes(out), 4, arrays[n].Layout)
	return nil
}

// nativeNames maps the tests' ops to real ones with their parameters.
var nativeNames = map[string]Op{
	"copy": {Name: "copy", Params: make([]byte, 4)},
	"add":  {Name: "binary", Params: make([]byte, 4)}, // BINARY_ADD
	"neg":  {Name: "unary", Params: make([]byte, 4)},  // UNARY_NEG
}

// makeOp makes an op that every device runs.
func makeOp(name string, args ...Arg) Op {
	op := Op{Name: name, Args: args, CPU: testOps[name]}
	if real, found := nativeNames[name]; found {
		op.Name, op.Params = real.Name, real.Params
	}
	return op
}

// run enqueues an op with a fresh output of the first operand's shape.
func run(s *Stream, name string, in ...*Tensor[float32]) *Tensor[float32] {
	var args []Arg
	for _, t := range in {
		if err := t.Err(); err != nil {
			return Failed[float32](s, err)
		}
		args = append(args, In(t.View()))
	}
	out := Output[float32](s, in[0].Shape()...)
	if out.Err() == nil {
		s.Enqueue(makeOp(name, append(args, Out(out.View()))...))
	}
	return out
}

// runInto enqueues an op whose output is a part of a tensor's storage.
func runInto(s *Stream, name string, out *Tensor[float32], in ...*Tensor[float32]) {
	var args []Arg
	for _, t := range in {
		args = append(args, In(t.View()))
	}
	s.Enqueue(makeOp(name, append(args, InOut(out.View()))...))
}

// onDevices runs a test on the CPU, and on Vulkan if it was built in, where a
// machine without a Vulkan device fails the test.
func onDevices(t *testing.T, test func(t *testing.T, d *Device), opts ...Option) {
	t.Run("cpu", func(t *testing.T) { test(t, openTest(t, "cpu", opts...)) })
	if _, err := vulkanDevices(); !errors.Is(err, errNotBuilt) {
		t.Run("vulkan", func(t *testing.T) { test(t, openTest(t, "vulkan", opts...)) })
	}
}

// openBoth runs a test that opens devices itself, once for each backend.
func openBoth(t *testing.T, test func(t *testing.T, open func(...Option) *Device)) {
	t.Run("cpu", func(t *testing.T) {
		test(t, func(opts ...Option) *Device { return openTest(t, "cpu", opts...) })
	})
	t.Run("vulkan", func(t *testing.T) {
		test(t, func(opts ...Option) *Device { return vulkanOrSkip(t, opts...) })
	})
}

// vulkanOrSkip opens a Vulkan device where that is built in.
func vulkanOrSkip(t testing.TB, opts ...Option) *Device {
	if _, err := vulkanDevices(); errors.Is(err, errNotBuilt) {
		t.Skip(err)
	}
	return openTest(t, "vulkan", opts...)
}

// holdBack makes work enqueued on s from now on wait for a CPU stream, until open is
// called.
func holdBack(t testing.TB, s *Stream) (open func()) {
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	first := newStream(t, openTest(t, "cpu"))
	t.Cleanup(open)
	hostOp(first, func() { <-gate })
	s.Wait(first.Record())
	return open
}

// hostOp enqueues f on a stream of the CPU backend.
func hostOp(s *Stream, f func()) {
	s.Enqueue(Op{Name: "host", CPU: func([]array.Array, []byte) error { f(); return nil }})
}

// openTest opens a device that the test must leave without live tensors.
func openTest(t testing.TB, spec string, opts ...Option) *Device {
	d, err := Open(spec, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { closeTest(t, d) })
	return d
}

func closeTest(t testing.TB, d *Device) {
	before := d.Stats()
	_ = d.Close() // the test may have poisoned a stream
	require.Zero(t, before.ValidationMessages, "messages of the validation layer")
	if !t.Failed() {
		require.Zero(t, before.LiveTensors, "tensors were not closed")
		require.Zero(t, before.LiveBytes)
	}
}

func newStream(t testing.TB, d *Device) *Stream {
	s, err := d.NewStream()
	require.NoError(t, err)
	return s
}

// tensor makes a tensor that is closed at the end of the test.
func tensor(t testing.TB, d *Device, data []float32, shape ...int) *Tensor[float32] {
	x, err := New(d, data, shape...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// closing closes a tensor at the end of the test.
func closing(t testing.TB, x *Tensor[float32]) *Tensor[float32] {
	require.NoError(t, x.Err())
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

func read[T Element](t testing.TB, x *Tensor[T]) []T {
	got, err := x.Read(bg)
	require.NoError(t, err)
	return got
}

func upTo(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i)
	}
	return out
}
