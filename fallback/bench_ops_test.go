package fallback

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// opBenchmarks are ops at shapes of language models; scripts/mlx_cpu_bench.py times
// the same, by the same names, with MLX.
type opBenchmarks struct{ b *testing.B }

// BenchmarkOps reports the fastest run of each op.
func BenchmarkOps(b *testing.B) {
	o := opBenchmarks{b}
	for _, d := range []struct {
		dtype array.DType
		name  string
	}{{array.Float32, "f32"}, {array.BFloat16, "bf16"}, {array.Float16, "f16"}} {
		for _, shape := range [][2]int{{1, 1024}, {1, 4096}, {512, 4096}} {
			o.rows(d.dtype, d.name, shape[0], shape[1])
		}
		o.products(d.dtype, d.name)
	}
	o.large()
}

func (o *opBenchmarks) run(name string, run func() error) {
	o.b.Run(name, func(b *testing.B) { fastest(b, run) })
}

func (o *opBenchmarks) floats(dtype array.DType, shape ...int) array.Array {
	return randomFloats(o.b, dtype, shape...)
}

func (o *opBenchmarks) empty(dtype array.DType, shape ...int) array.Array {
	a, err := array.New(dtype, shape...)
	require.NoError(o.b, err)
	return a
}

// transposed returns a view of a matrix.
func transposed(a array.Array) array.Array {
	l, err := a.Transpose(1, 0)
	if err != nil {
		panic(err)
	}
	a.Layout = l
	return a
}

func (o *opBenchmarks) repeated(a array.Array, shape ...int) array.Array {
	l, err := a.Broadcast(shape...)
	require.NoError(o.b, err)
	a.Layout = l
	return a
}

func (o *opBenchmarks) rows(dtype array.DType, name string, rows, cols int) {
	shape := fmt.Sprintf("%s/%dx%d", name, rows, cols)
	a, b, out := o.floats(dtype, rows, cols), o.floats(dtype, rows, cols), o.empty(dtype, rows, cols)
	positive := o.floats(dtype, rows, cols)
	for i := range positive.Size() {
		v := getAt(positive, i)
		setAt(positive, i, v*v+0.1)
	}
	w := o.floats(dtype, cols)
	bools := o.empty(array.Bool, rows, cols)
	binary := func(name string, kind opdef.BinaryKind, a, b, out array.Array) {
		o.run(name+"/"+shape, func() error { return Binary(kind, a, b, out) })
	}
	binary("add", opdef.BinaryAdd, a, b, out)
	binary("mul_row", opdef.BinaryMul, a, o.repeated(w, rows, cols), out)
	binary("mul_column", opdef.BinaryMul, a, o.repeated(o.floats(dtype, rows, 1), rows, cols), out)
	binary("mul_scalar", opdef.BinaryMul, a, o.repeated(o.floats(dtype, 1), rows, cols), out)
	binary("div", opdef.BinaryDiv, a, positive, out)
	binary("max", opdef.BinaryMax, a, b, out)
	binary("less", opdef.BinaryLess, a, b, bools)
	for _, u := range []struct {
		name string
		kind opdef.UnaryKind
		x    array.Array
	}{
		{"neg", opdef.UnaryNeg, a}, {"exp", opdef.UnaryExp, a}, {"log", opdef.UnaryLog, positive}, {"sqrt", opdef.UnarySqrt, positive},
		{"rsqrt", opdef.UnaryRsqrt, positive}, {"tanh", opdef.UnaryTanh, a}, {"erf", opdef.UnaryErf, a}, {"sin", opdef.UnarySin, a}, {"sigmoid", opdef.UnarySigmoid, a},
	} {
		o.run(u.name+"/"+shape, func() error { return Unary(u.kind, u.x, out) })
	}
	o.run("softmax/"+shape, func() error { return Softmax(a, out) })
	o.run("rms_norm/"+shape, func() error { return RMSNorm(a, w, out, 1e-6) })
	o.run("layer_norm/"+shape, func() error { return LayerNorm(a, w, w, out, 1e-6) })
	reduce := func(name string, kind opdef.ReduceKind, x, out array.Array) {
		o.run(name+"/"+shape, func() error { return Reduce(kind, x, out) })
	}
	reduce("sum_rows", opdef.ReduceSum, a, o.empty(dtype, rows))
	reduce("sum_columns", opdef.ReduceSum, transposed(a), o.empty(dtype, cols))
	reduce("max_rows", opdef.ReduceAMax, a, o.empty(dtype, rows))
	reduce("argmax_rows", opdef.ReduceArgMax, a, o.empty(array.Uint32, rows))
	reduce("logsumexp_rows", opdef.ReduceLogSumExp, a, o.empty(dtype, rows))
	o.run("cumsum/"+shape, func() error { return Scan(opdef.ScanSum, a, out, ScanParams{Axis: 1}) })
	o.run("transpose/"+shape, func() error { return Copy(transposed(a), o.view(out, cols, rows)) })
	to := array.Float32
	if dtype == array.Float32 {
		to = array.BFloat16
	}
	converted := o.empty(to, rows, cols)
	o.run("to_f32/"+shape, func() error { return Cast(a, converted) })
	require.NoError(o.b, Binary(opdef.BinaryLess, a, b, bools))
	o.run("where/"+shape, func() error { return Where(bools, a, b, out) })
	both := o.empty(dtype, rows, 2*cols)
	o.run("concat/"+shape, func() error { return Concat([]array.Array{a, b}, both, 1) })
}

func (o *opBenchmarks) view(a array.Array, shape ...int) array.Array {
	l, err := a.Reshape(shape...)
	require.NoError(o.b, err)
	a.Layout = l
	return a
}

func (o *opBenchmarks) products(dtype array.DType, name string) {
	table, ids := o.floats(dtype, 16384, 1024), o.empty(array.Int32, 512)
	for i := range storage[int32](&ids) {
		storage[int32](&ids)[i] = int32(i * 31 % 16384)
	}
	rows := o.empty(dtype, 512, 1024)
	o.run(fmt.Sprintf("gather/%s/512x1024", name), func() error { return Gather(table, ids, rows, 0) })
	for _, c := range [][3]int{{1, 4096, 4096}, {4, 3072, 1024}, {64, 3072, 1024}, {512, 1024, 1024}} {
		m, n, k := c[0], c[1], c[2]
		x, w, b, out := o.floats(dtype, m, k), o.floats(dtype, n, k), o.floats(dtype, k, n), o.empty(dtype, m, n)
		size := fmt.Sprintf("%s/%dx%dx%d", name, m, n, k)
		o.run("matmul_t/"+size, func() error { return MatMul(x, transposed(w), out) })
		o.run("matmul/"+size, func() error { return MatMul(x, b, out) })
	}
	for _, c := range [][2]int{{1, 64}, {1, 1024}, {512, 512}} {
		q, k, v, out := o.floats(dtype, 1, 16, c[0], 128), o.floats(dtype, 1, 8, c[1], 128), o.floats(dtype, 1, 8, c[1], 128), o.empty(dtype, 1, 16, c[0], 128)
		o.run(fmt.Sprintf("sdpa/%s/%dx%d", name, c[0], c[1]), func() error {
			return SDPA(q, k, v, array.Array{}, array.Array{}, out, SDPAParams{Scale: 0.09, Causal: c[0] > 1})
		})
	}
	for _, bits := range []int{4, 8} {
		w, s := randomCodes(o.b, 3072, 1024*bits/32), o.floats(dtype, 3072, 16)
		for _, m := range []int{1, 64} {
			x, out := o.floats(dtype, m, 1024), o.empty(dtype, m, 3072)
			o.run(fmt.Sprintf("quantized_matmul%d/%s/%dx3072x1024", bits, name, m), func() error {
				return QuantizedMatMulTransposed(x, w, s, s, out, Quantization{GroupSize: 64, Bits: bits})
			})
		}
	}
}

func (o *opBenchmarks) large() {
	const n = 1 << 24
	a, out := o.empty(array.Float32, n), o.empty(array.Float32, n)
	for i := range n {
		storage[float32](&a)[i] = float32(i%1000) * 0.01
	}
	o.run("add/f32/16M", func() error { return Binary(opdef.BinaryAdd, a, a, out) })
	o.run("exp/f32/16M", func() error { return Unary(opdef.UnaryExp, a, out) })
	o.run("sum/f32/16M", func() error {
		return Reduce(opdef.ReduceSum, o.view(a, 1, n), o.empty(array.Float32, 1))
	})
	strided := o.view(a, 1<<12, 1<<12)
	strided.Layout, _ = strided.Slice(1, 0, 1<<12, 2)
	half := o.empty(array.Float32, 1<<12, 1<<11)
	o.run("copy/f32/16M", func() error { return Copy(strided, half) })
}
