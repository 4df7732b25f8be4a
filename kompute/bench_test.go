package kompute

import (
	"testing"

	"github.com/kompute-go/kompute-go/array"
)

func nothing([]array.Array) error { return nil }

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

func BenchmarkTokenOnTheCPU(b *testing.B) {
	d, err := Open("cpu")
	if err != nil {
		b.Fatal(err)
	}
	benchmarkToken(b, d, Op{Name: "nothing", CPU: nothing})
}

func BenchmarkTokenOnVulkan(b *testing.B) {
	d, err := Open("vulkan")
	if err != nil {
		b.Skip(err)
	}
	benchmarkToken(b, d, Op{Name: "unary", Params: make([]byte, 4), CPU: testOps["neg"]})
}
