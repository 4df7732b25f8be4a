package generate

import (
	"errors"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// penalties apply Options.Penalties on the device, which counts the tokens of the text.
type penalties struct {
	counts *kompute.Tensor[uint32]  // [1, V], as in ops.Penalize
	values *kompute.Tensor[float32] // [1, PenaltiesSize]
	text   *kompute.Tensor[int32]   // [1], 0: the row of the text
	once   *kompute.Tensor[uint32]  // [1], 1
}

func newPenalties(d *kompute.Device, vocabulary int) (*penalties, error) {
	var errs [4]error
	x := &penalties{}
	x.counts, errs[0] = kompute.Zeros[uint32](d, 1, vocabulary)
	x.values, errs[1] = kompute.Zeros[float32](d, 1, ops.PenaltiesSize)
	x.text, errs[2] = kompute.Zeros[int32](d, 1)
	x.once, errs[3] = kompute.New(d, []uint32{1}, 1)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

// begin counts the tokens of a prompt and of the beginning of an answer.
func (x *penalties) begin(st *kompute.Stream, p sample.Penalties, prompt, answer []int) error {
	counts := make([]uint32, x.counts.Dim(1))
	for _, id := range prompt {
		counts[id] = ops.InPrompt
	}
	for _, id := range answer {
		counts[id]++
	}
	values := p.Encode()
	sc := st.Scope()
	defer sc.Close()
	ops.SliceUpdate(st, x.counts, kompute.Constant(st, counts, 1, len(counts)))
	ops.SliceUpdate(st, x.values, kompute.Constant(st, values[:], 1, len(values)))
	return st.Err()
}

// count enqueues counting a token [1, 1] of the answer. nil counts nothing.
func (x *penalties) count(st *kompute.Stream, token *kompute.Tensor[uint32]) {
	if x != nil {
		id := token.Reshape(1)
		defer id.Close()
		ops.Tally(st, x.counts, x.text, id, x.once)
	}
}

// apply enqueues the change of logits [1, 1, V]. nil changes nothing.
func (x *penalties) apply(st *kompute.Stream, logits *kompute.Tensor[float32]) {
	if x != nil {
		row := logits.Reshape(1, x.counts.Dim(1))
		defer row.Close()
		ops.Penalize(st, row, x.counts, x.values, x.text)
	}
}

func (x *penalties) close() error {
	if x == nil {
		return nil
	}
	return errors.Join(x.counts.Close(), x.values.Close(), x.text.Close(), x.once.Close())
}
