package ops_test

import (
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// The sizes of random programs: rows of width elements, heads of width/heads.
const (
	width     = 64
	heads     = 2
	programs  = 12 // maximum number of steps of a program
	remembers = 3  // how often a program runs
)

// FuzzRegion runs random programs op by op and as a replayed region, on every
// device, with every fusion: the results must be the same except for rounding.
func FuzzRegion(f *testing.F) {
	f.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	devices, all := make(map[string]*kompute.Device), specs(f)
	for _, spec := range all {
		d, err := kompute.Open(spec, kompute.WithStrict())
		require.NoError(f, err)
		f.Cleanup(func() { require.NoError(f, d.Close()) })
		devices[spec] = d
	}
	for _, program := range seedPrograms() {
		f.Add(program)
		if worker := flag.Lookup("test.fuzzworker"); worker != nil && worker.Value.String() == "true" {
			// A case that takes ten seconds counts as one that hangs, and a driver on the CPU may
			// compile kernels that long: those of the seeds are compiled before the first case.
			for _, spec := range all {
				runProgram(f, devices[spec], program, false)
				runProgram(f, devices[spec], program, true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 5 || len(program) > 2+3*programs {
			return
		}
		var want [][]float32
		var from string
		for _, spec := range all {
			for _, replayed := range []bool{false, true} {
				got := runProgram(t, devices[spec], program, replayed)
				if want == nil {
					want, from = got, spec
					continue
				}
				for i := range got {
					compareRuns(t, want[i], got[i], fmt.Sprintf("%s, replayed: %v, against %s; run %d of %v", spec, replayed, from, i, program))
				}
			}
		}
	})
}

// seedPrograms are the programs that fuzzing begins with.
func seedPrograms() (seeds [][]byte) {
	for rows := range byte(2) {
		for start := range byte(16) {
			program := []byte{rows * 3, start}
			for i := range byte(3 * programs) {
				program = append(program, start*31+i*(start|1)*7)
			}
			seeds = append(seeds, program)
		}
		// A layer of a language model: norm, three projections, attention, projection, residual.
		seeds = append(seeds, []byte{rows * 3, 0, 0, 0, 0, 1, 2, 0, 1, 2, 1, 1, 2, 2, 8, 3, 4, 1, 6, 0, 3, 7, 0, 0, 8, 0, 1, 9, 0, 5, 10, 0})
	}
	return seeds
}

// compareRuns allows for accumulated differences in rounding.
func compareRuns(t *testing.T, want, got []float32, what string) {
	t.Helper()
	largest := 0.0
	for _, v := range want {
		if math.IsNaN(float64(v)) || math.Abs(float64(v)) > 1e6 {
			return // such numbers, and all computed from them, cannot be compared
		}
		largest = max(largest, math.Abs(float64(v)))
	}
	for i := range want {
		if d := math.Abs(float64(want[i]) - float64(got[i])); !(d <= 2e-3*max(largest, 1)) {
			require.Failf(t, "results differ", "%s: element %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}

// machine holds the tensors that a program works on.
type machine struct {
	s       *kompute.Stream
	rows    int
	x       [2]*kompute.Tensor[float32] // [rows, width], the inputs
	norm    *kompute.Tensor[float32]    // [width]
	dense   *kompute.Tensor[float32]    // [width, width]
	codes   [3]*kompute.Tensor[uint32]  // quantized, transposed: two [2*width, width], one [width, 2*width]
	scales  [3]*kompute.Tensor[float32]
	biases  [3]*kompute.Tensor[float32]
	state   *kompute.Tensor[float32] // [rows, width], kept from run to run
	out     *kompute.Tensor[float32] // [rows, width]
	program []byte
}

var packing = ops.Quantization{GroupSize: 32, Bits: 4}

// runProgram runs a program several times, and returns the results of each run.
func runProgram(t testing.TB, d *kompute.Device, program []byte, replayed bool) [][]float32 {
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	outer := s.Scope()
	defer outer.Close()
	m := &machine{s: s, rows: 1 + int(program[0])%4, program: program[1:]}
	m.fill(t, d)
	var region *kompute.Region
	if replayed {
		region, err = s.Capture(m.run)
		require.NoError(t, err, "%v", program)
		defer func() { require.NoError(t, region.Close()) }()
	}
	var out [][]float32
	for range remembers {
		if replayed {
			require.NoError(t, region.Replay(t.Context()))
		} else {
			m.run(s)
		}
		values, err := m.out.Read(t.Context())
		require.NoError(t, err, "%v", program)
		state, err := m.state.Read(t.Context())
		require.NoError(t, err)
		out = append(out, append(values, state...))
	}
	return out
}

// fill makes inputs and weights, the same ones on every device.
func (m *machine) fill(t testing.TB, d *kompute.Device) {
	next := uint32(12345)
	tensor := func(scale float32, shape ...int) *kompute.Tensor[float32] {
		n := 1
		for _, dim := range shape {
			n *= dim
		}
		values := make([]float32, n)
		for i := range values {
			next = next*1664525 + 1013904223
			values[i] = (float32(next>>8)/(1<<23) - 1) * scale
		}
		out, err := kompute.New(d, values, shape...)
		require.NoError(t, err)
		t.Cleanup(func() { _ = out.Close() })
		return out
	}
	m.x = [2]*kompute.Tensor[float32]{tensor(1, m.rows, width), tensor(1, m.rows, width)}
	m.norm, m.dense = tensor(1, width), tensor(0.2, width, width)
	m.state, m.out = tensor(1, m.rows, width), tensor(0, m.rows, width)
	for i, shape := range [][2]int{{2 * width, width}, {2 * width, width}, {width, 2 * width}} {
		m.codes[i], m.scales[i], m.biases[i] = ops.Quantize[float32](m.s, tensor(0.2, shape[0], shape[1]), packing)
	}
}

// run runs the program: each step takes three bytes, which select an operation and
// two of the values so far. Values that no step uses again are closed, so that passes
// may remove them.
func (m *machine) run(s *kompute.Stream) {
	sc := s.Scope()
	defer sc.Close()
	values := []*kompute.Tensor[float32]{m.x[0], m.x[1]}
	for code := m.program[1:]; len(code) >= 3; code = code[3:] {
		a, b := values[int(code[1])%len(values)], values[int(code[2])%len(values)]
		values = append(values, m.step(s, code[0], a, b))
	}
	last := values[len(values)-1]
	if len(values) > 3 {
		last = ops.Add(s, last, values[2+int(m.program[0])%(len(values)-2)])
	}
	ops.SliceUpdate(s, m.out, last)
}

func (m *machine) project(s *kompute.Stream, x *kompute.Tensor[float32], i int) *kompute.Tensor[float32] {
	return ops.QuantizedMatMul(s, x, m.codes[i], m.scales[i], m.biases[i], packing, ops.Transposed)
}

// split is a view of rows as heads, [1, heads, rows, width/heads].
func (m *machine) split(x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	return x.Reshape(1, m.rows, heads, width/heads).Transpose(0, 2, 1, 3)
}

// merge turns heads into rows again: a view of one row, a copy of several.
func (m *machine) merge(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	x = x.Transpose(0, 2, 1, 3)
	if m.rows > 1 {
		x = ops.Copy(s, x)
	}
	return x.Reshape(m.rows, width)
}

func (m *machine) step(s *kompute.Stream, what byte, a, b *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	switch what % 16 {
	case 0:
		return ops.RMSNorm(s, a, m.norm, 1e-5)
	case 1:
		return m.project(s, a, 0).Slice(1, 0, width)
	case 2:
		return m.project(s, ops.Concat(s, 1, a, b), 2)
	case 3:
		gate, up := m.project(s, a, 0), m.project(s, b, 1)
		return m.project(s, ops.SiLUMul(s, gate, up), 2)
	case 4:
		return m.merge(s, ops.SDPA(s, m.split(a), m.split(b), m.split(b), ops.SDPAParams[float32]{Causal: what&16 != 0}))
	case 5:
		return m.merge(s, ops.RoPE(s, m.split(a), ops.RoPEParams{}, ops.At(int(what/16))))
	case 6:
		return ops.Add(s, a, b)
	case 7:
		return ops.Tanh(s, ops.Mul(s, a, b))
	case 8:
		return ops.MatMul(s, a, m.dense)
	case 9:
		return ops.MatMul(s, a, m.dense.Transpose())
	case 10:
		return ops.Softmax(s, a)
	case 11:
		ops.SliceUpdate(s, m.state, ops.Tanh(s, a))
		return ops.Sub(s, m.state, b)
	case 12:
		half := ops.Concat(s, 1, a.Slice(1, width/2, width), b.Slice(1, 0, width/2))
		return ops.Copy(s, half)
	case 13:
		return ops.SiLUMul(s, a, b)
	case 14:
		return ops.Sub(s, a, ops.Mean(s, b, ops.Axes(-1), ops.KeepDims()))
	}
	return ops.Max(s, ops.Neg(s, a), b)
}
