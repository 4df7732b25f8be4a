package kompute

import (
	"testing"

	"github.com/kompute-go/kompute-go/internal/array"
)

func nothing([]array.Array, []byte) error { return nil }

// benchmarkToken enqueues what a decode token of a small model does: 100 ops
// with views of their operands, in a scope, then a read.
func benchmarkToken(b *testing.B, d *Device, op Op) {
	defer d.Close()
	s, err := d.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	w, _ := New(d, upTo(512), 512)
	defer w.Close()
	b.ReportAllocs()
	for b.Loop() {
		sc := s.Scope()
		x := w
		for range 100 {
			v := x.Reshape(1, 8, 64).Transpose(1, 0, 2)
			y := Output[float32](s, 8, 1, 64)
			op.Args = []Arg{In(v.View()), Out(y.View())}
			s.Enqueue(op)
			x = y
		}
		var token [1]float32
		if err := x.Slice(0, 0, 1).Slice(2, 0, 1).ReadInto(bg, token[:]); err != nil {
			b.Fatal(err)
		}
		sc.Close()
	}
}

// measured runs a benchmark without measurements and with each kind of them.
func measured(b *testing.B, spec string, op Op) {
	for name, opts := range map[string][]Option{
		"unmeasured": nil, "op times": {WithOpTimes()}, "trace": {WithTrace(NewTrace())},
	} {
		b.Run(name, func(b *testing.B) {
			d, err := Open(spec, opts...)
			if err != nil {
				b.Skip(err)
			}
			benchmarkToken(b, d, op)
		})
	}
}

func BenchmarkTokenOnTheCPU(b *testing.B) { measured(b, "cpu", Op{Name: "nothing", CPU: nothing}) }

func BenchmarkTokenOnVulkan(b *testing.B) {
	measured(b, "vulkan", Op{Name: "unary", Params: make([]byte, 4), CPU: testOps["neg"]})
}

// BenchmarkReplay replays a region with as many weights as a model of 28 layers
// has tensors. Another stream has uploaded the weights.
func BenchmarkReplay(b *testing.B) {
	d, err := Open("vulkan")
	if err != nil {
		b.Skip(err)
	}
	defer d.Close()
	s, _ := d.NewStream()
	loader, _ := d.NewStream()
	var weights []*Tensor[float32]
	for range 600 {
		w, _ := New(d, upTo(4), 4)
		defer w.Close()
		loader.Upload(w)
		weights = append(weights, w)
	}
	if err := loader.Close(); err != nil {
		b.Fatal(err)
	}
	x, _ := New(d, upTo(4), 4)
	defer x.Close()
	r, err := s.Capture(func(s *Stream) {
		for _, w := range weights {
			runInto(s, "add", x, x, w)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Replay(bg); err != nil {
			b.Fatal(err)
		}
	}
}
