package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// QuantizedGather picks and dequantizes rows, as an embedding does: w [V,
// K*bits/32] uint32, scales and biases? [V, K/group] as of Dequantize, indices
// [i…] int32 or uint32, out [i…, K] of a float type. A negative index counts from
// the end; one outside the rows gives zeros.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func QuantizedGather(w, scales, biases, indices, out array.Array, q Quantization) error {
	r, err := newRowPicker(w, scales, biases, indices, out, q)
	if err == nil {
		parallel(r.loop.size, r.cost(), r.pick)
	}
	return err
}

// rowPicker picks and dequantizes rows. It is constant, and may be used concurrently.
type rowPicker struct {
	packed
	out  array.Array
	at   func(off int) (row int, ok bool)
	loop loop // over indices and the rows of out
}

// newRowPicker checks the operands of QuantizedGather.
func newRowPicker(w, scales, biases, indices, out array.Array, q Quantization) (*rowPicker, error) {
	c := checker{op: opdef.QuantizedGather.Name}
	r := &rowPicker{packed: c.packed(&w, &scales, &biases, q), out: out}
	c.rank("w", &w, 2)
	c.index("indices", &indices)
	c.float("out", &out)
	if c.err == nil {
		c.shape("out", &out, append(slices.Clone(indices.Shape), r.cols))
	}
	if c.err != nil {
		return nil, c.err
	}
	r.at = indexReader(&indices, w.Shape[0])
	if r.loop = newLoop(len(indices.Shape), &indices, &out); r.cols == 0 {
		r.loop.size = 0
	}
	return r, nil
}

// cost is the approximate time of a row in nanoseconds.
func (r *rowPicker) cost() float64 { return 0.5 * float64(r.cols) }

// pick writes rows [lo, hi) of out.
func (r *rowPicker) pick(lo, hi int) {
	scratch := borrow(r.rowSpace() + r.cols)
	defer scratch.release()
	c := r.loop.seek(r.loop.rank, lo)
	for range hi - lo {
		if i, ok := r.at(c.off[0]); ok {
			r.writeRow(r.w.Offset+i*r.w.Strides[0], r.scales.Offset+i*r.scales.Strides[0],
				r.biases.Offset+i*r.biases.Strides[0], &r.out, c.off[1], scratch.f)
		} else {
			clear(scratch.f[:r.cols])
			storeFloats(&r.out, c.off[1], r.out.Strides[len(r.out.Strides)-1], scratch.f[:r.cols])
		}
		c.next()
	}
}

// quantizedGatherStages are the stages of a quantized_gather, so that replays need not check its operands again.
func quantizedGatherStages(op opdef.QuantizedGatherParams) *Stages {
	o := &opdef.QuantizedGather
	s := &Stages{Loops: []Loop{{Kernel: o.Name}}}
	s.Make = func(a []array.Array, _ []float32) ([]workers.Part, error) {
		q := Quantization{GroupSize: int(op.GroupSize), Bits: int(op.Bits), Mode: op.Mode}
		r, err := newRowPicker(a[o.W.Index], a[o.Scales.Index], a[o.Biases.Index], a[o.Indices.Index], a[o.Out.Index], q)
		if err != nil {
			return nil, err
		}
		return []workers.Part{{Units: r.loop.size, Cost: r.cost(), Run: func(_ *workers.Context, lo, hi int) error {
			r.pick(lo, hi)
			return nil
		}}}, nil
	}
	return s
}
