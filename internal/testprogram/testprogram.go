// Package testprogram runs random programs of ops, for tests that compare the runs of
// one program: op by op and replayed, on several devices, or while the driver fails.
package testprogram

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// The sizes of a program: rows of width elements, heads of width/heads.
const (
	width = 64
	heads = 2
	steps = 12 // at most
)

// Runs is how often a program runs: what it keeps from run to run differs.
const Runs = 3

var packing = ops.Quantization{GroupSize: 32, Bits: 4}

// Program is a program on a stream of its own. Its code is the number of rows, the
// value that is added to the last one, and three bytes for each step: an operation and
// which two of the values so far it takes.
type Program struct {
	s      *kompute.Stream
	scope  *kompute.Scope
	region *kompute.Region
	code   []byte
	rows   int
	x      [2]*kompute.Tensor[float32] // [rows, width], the inputs
	norm   *kompute.Tensor[float32]    // [width]
	dense  *kompute.Tensor[float32]    // [width, width]
	codes  [3]*kompute.Tensor[uint32]  // quantized, transposed: two [2*width, width], one [width, 2*width]
	scales [3]*kompute.Tensor[float32]
	biases [3]*kompute.Tensor[float32]
	state  *kompute.Tensor[float32] // [rows, width], kept from run to run
	out    *kompute.Tensor[float32] // [rows, width], written once in each run, at first zeros
	made   []*kompute.Tensor[float32]
}

// Valid reports whether code is a program.
func Valid(code []byte) bool { return len(code) >= 5 && len(code) <= 2+3*steps }

// Seeds are programs to begin with: many of all operations, and layers of a language model.
func Seeds() (seeds [][]byte) {
	for rows := range byte(2) {
		for start := range byte(16) {
			code := []byte{rows * 3, start}
			for i := range byte(3 * steps) {
				code = append(code, start*31+i*(start|1)*7)
			}
			seeds = append(seeds, code)
		}
		seeds = append(seeds, Layer(int(rows)*3+1))
	}
	return seeds
}

// Layer is a layer of a language model over 1 to 4 rows: norm, three projections,
// attention, projection, residual.
func Layer(rows int) []byte {
	return []byte{byte(rows - 1), 0, 0, 0, 0, 1, 2, 0, 1, 2, 1, 1, 2, 2, 8, 3, 4, 1, 6, 0, 3, 7, 0, 0, 8, 0, 1, 9, 0, 5, 10, 0}
}

// InFuzzWorker reports whether this process is one in which `go test -fuzz` runs cases.
// A case that takes ten seconds counts as one that hangs, and a driver on the CPU may
// compile kernels that long: there, the kernels of the seeds are compiled before the
// first case.
func InFuzzWorker() bool {
	worker := flag.Lookup("test.fuzzworker")
	return worker != nil && worker.Value.String() == "true"
}

// New makes a program's stream, inputs and weights, the same ones on every device.
func New(d *kompute.Device, code []byte) (*Program, error) {
	if !Valid(code) {
		return nil, fmt.Errorf("%v is no program", code)
	}
	s, err := d.NewStream()
	if err != nil {
		return nil, err
	}
	p := &Program{s: s, scope: s.Scope(), rows: 1 + int(code[0])%4, code: code}
	if err := p.fill(d); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Program) fill(d *kompute.Device) error {
	next := uint32(12345)
	var failed error
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
		t, err := kompute.New(d, values, shape...)
		if err == nil {
			p.made = append(p.made, t)
		}
		failed = errors.Join(failed, err)
		return t
	}
	p.x = [2]*kompute.Tensor[float32]{tensor(1, p.rows, width), tensor(1, p.rows, width)}
	p.norm, p.dense = tensor(1, width), tensor(0.2, width, width)
	p.state, p.out = tensor(1, p.rows, width), tensor(0, p.rows, width)
	for i, shape := range [][2]int{{2 * width, width}, {2 * width, width}, {width, 2 * width}} {
		w := tensor(0.2, shape[0], shape[1])
		if failed != nil {
			return failed
		}
		p.codes[i], p.scales[i], p.biases[i] = ops.Quantize[float32](p.s, w, packing)
	}
	return nil
}

// Run runs the program Runs times, op by op or as a region that is replayed, and
// returns what each run left: its result, and what it keeps. After an error there are
// fewer.
func (p *Program) Run(ctx context.Context, replayed bool) (left [][]float32, err error) {
	if replayed {
		if p.region, err = p.s.Capture(p.run); err != nil {
			return nil, err
		}
	}
	for range Runs {
		if replayed {
			if err := p.region.Replay(ctx); err != nil {
				return left, err
			}
		} else {
			p.run(p.s)
		}
		values, err := p.out.Read(ctx)
		if err != nil {
			return left, err
		}
		state, err := p.state.Read(ctx)
		if err != nil {
			return left, err
		}
		left = append(left, append(values, state...))
	}
	return left, nil
}

// Code returns the program's code.
func (p *Program) Code() []byte { return p.code }

// Out reads the result as it is now, which is the first part of what Run returns.
func (p *Program) Out(ctx context.Context) ([]float32, error) { return p.out.Read(ctx) }

// Inputs reads what the program only reads.
func (p *Program) Inputs(ctx context.Context) (all []float32, err error) {
	for _, t := range []*kompute.Tensor[float32]{p.x[0], p.x[1], p.norm, p.dense} {
		values, err := t.Read(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, values...)
	}
	return all, nil
}

// Close gives back all that the program holds. Its error is the stream's.
func (p *Program) Close() error {
	var err error
	if p.region != nil {
		err = p.region.Close()
	}
	p.scope.Close()
	for _, t := range p.made {
		err = errors.Join(err, t.Close())
	}
	return errors.Join(err, p.s.Close())
}

// Compare returns an error if the numbers of two runs differ by more than roundings
// that add up.
func Compare(want, got []float32) error {
	largest := 0.0
	for _, v := range want {
		if math.IsNaN(float64(v)) || math.Abs(float64(v)) > 1e6 {
			return nil // such numbers, and all computed from them, cannot be compared
		}
		largest = max(largest, math.Abs(float64(v)))
	}
	for i := range want {
		if d := math.Abs(float64(want[i]) - float64(got[i])); !(d <= 2e-3*max(largest, 1)) {
			return fmt.Errorf("results differ: element %d is %v, not %v", i, got[i], want[i])
		}
	}
	return nil
}

// run runs the program once. Values that no step uses again are closed, so that passes
// may remove them.
func (p *Program) run(s *kompute.Stream) {
	sc := s.Scope()
	defer sc.Close()
	values := []*kompute.Tensor[float32]{p.x[0], p.x[1]}
	for code := p.code[2:]; len(code) >= 3; code = code[3:] {
		a, b := values[int(code[1])%len(values)], values[int(code[2])%len(values)]
		values = append(values, p.step(s, code[0], a, b))
	}
	last := values[len(values)-1]
	if len(values) > 3 {
		last = ops.Add(s, last, values[2+int(p.code[1])%(len(values)-2)])
	}
	ops.SliceUpdate(s, p.out, last)
}

func (p *Program) project(s *kompute.Stream, x *kompute.Tensor[float32], i int) *kompute.Tensor[float32] {
	return ops.QuantizedMatMul(s, x, p.codes[i], p.scales[i], p.biases[i], packing, ops.Transposed)
}

// split is a view of rows as heads, [1, heads, rows, width/heads].
func (p *Program) split(x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	return x.Reshape(1, p.rows, heads, width/heads).Transpose(0, 2, 1, 3)
}

// merge turns heads into rows again: a view of one row, a copy of several.
func (p *Program) merge(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	x = x.Transpose(0, 2, 1, 3)
	if p.rows > 1 {
		x = ops.Copy(s, x)
	}
	return x.Reshape(p.rows, width)
}

func (p *Program) step(s *kompute.Stream, what byte, a, b *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	switch what % 16 {
	case 0:
		return ops.RMSNorm(s, a, p.norm, 1e-5)
	case 1:
		return p.project(s, a, 0).Slice(1, 0, width)
	case 2:
		return p.project(s, ops.Concat(s, 1, a, b), 2)
	case 3:
		gate, up := p.project(s, a, 0), p.project(s, b, 1)
		return p.project(s, ops.SiLUMul(s, gate, up), 2)
	case 4:
		return p.merge(s, ops.SDPA(s, p.split(a), p.split(b), p.split(b), ops.SDPAParams[float32]{Causal: what&16 != 0}))
	case 5:
		return p.merge(s, ops.RoPE(s, p.split(a), ops.RoPEParams{}, ops.At(int(what/16))))
	case 6:
		return ops.Add(s, a, b)
	case 7:
		return ops.Tanh(s, ops.Mul(s, a, b))
	case 8:
		return ops.MatMul(s, a, p.dense)
	case 9:
		return ops.MatMul(s, a, p.dense.Transpose())
	case 10:
		return ops.Softmax(s, a)
	case 11:
		ops.SliceUpdate(s, p.state, ops.Tanh(s, a))
		return ops.Sub(s, p.state, b)
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
