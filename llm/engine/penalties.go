package engine

import (
	"errors"
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// penalties are those of a request, in the form of ops.Penalize; nil: noPenalties.
type penalties struct {
	values fallback.Penalties
	// first tells which tokens of the prompt are the first of their kind. Only those are
	// counted, since a count has one bit for the prompt.
	first []bool
}

// noPenalties change no logit.
var noPenalties = fallback.Penalties(sample.Penalties{}.Encode())

func newPenalties(r *Request) *penalties {
	if r.penalties().None() {
		return nil
	}
	p := &penalties{values: r.penalties().Encode(), first: make([]bool, len(r.Prompt))}
	seen := map[int]bool{}
	for i, id := range r.Prompt {
		p.first[i] = !seen[id]
		seen[id] = true
	}
	return p
}

// amount returns what token at of a sequence adds to the count of its kind.
func (p *penalties) amount(at int) uint32 {
	switch {
	case p == nil:
		return 0
	case at >= len(p.first):
		return 1
	case p.first[at]:
		return ops.InPrompt
	}
	return 0
}

// processor changes logits on the host, for a request with Logits.
func (p *penalties) processor() processor {
	counts, counted := map[int32]uint32{}, 0
	return func(q *sequence, logits []float32) error {
		for ; counted < len(q.tokens); counted++ {
			counts[q.tokens[counted]] += p.amount(counted)
		}
		for id, n := range counts {
			logits[id] = p.values.Apply(logits[id], n)
		}
		return nil
	}
}

// texts are the texts of running requests whose logits the device changes: sequence q has
// row q.row.
type texts struct {
	counts     *kompute.Tensor[uint32]  // [Sequences, V], as in ops.Penalize
	penalties  *kompute.Tensor[float32] // [Sequences, PenaltiesSize]
	biases     *kompute.Tensor[float32] // [Sequences, V], of Request.LogitBias
	noCounts   *kompute.Tensor[uint32]  // [1, V] of zeros
	noBiases   *kompute.Tensor[float32] // [1, V] of zeros
	admissions []uint64                 // of the sequence that each row belongs to
	counted    []int                    // how many of its tokens are
}

func newTexts(d *kompute.Device, sequences, vocabulary int) (*texts, error) {
	x := &texts{admissions: make([]uint64, sequences), counted: make([]int, sequences)}
	var errs [5]error
	x.counts, errs[0] = kompute.Zeros[uint32](d, sequences, vocabulary)
	x.penalties, errs[1] = kompute.Zeros[float32](d, sequences, ops.PenaltiesSize)
	x.biases, errs[2] = kompute.Zeros[float32](d, sequences, vocabulary)
	x.noCounts, errs[3] = kompute.Zeros[uint32](d, 1, vocabulary)
	x.noBiases, errs[4] = kompute.Zeros[float32](d, 1, vocabulary)
	return x, errors.Join(errs[:]...)
}

// noText is the row of no text: none of the operands of an op has it.
func (x *texts) noText() int32 { return int32(len(x.admissions)) }

// begin prepares the row of a piece: the tokens before the piece are counted, also those that are not
// fed because others have filled their pages, and those that were guessed right. The step itself counts
// the tokens of the piece, but for guesses.
func (x *texts) begin(s *kompute.Stream, p *piece) error {
	sc := s.Scope()
	defer sc.Close()
	if x.admissions[p.row] != p.admission {
		if err := x.clear(s, p); err != nil {
			return err
		}
		x.admissions[p.row], x.counted[p.row] = p.admission, 0
	}
	if p.penalties == nil {
		return s.Err()
	}
	if x.counted[p.row] < p.first {
		if err := x.add(s, p); err != nil {
			return err
		}
	}
	x.counted[p.row] = p.first + p.count - len(p.draft)
	return s.Err()
}

// clear makes the row of a piece that of its sequence.
func (x *texts) clear(s *kompute.Stream, p *piece) error {
	row := []ops.Position{ops.At(p.row), ops.At(0)}
	ops.SliceUpdate(s, x.counts, x.noCounts, row...)
	penalties := noPenalties
	if p.penalties != nil {
		penalties = p.penalties.values
	}
	err := update(s, x.penalties, penalties[:], p.row)
	if p.biased {
		biases := make([]float32, x.biases.Dim(1))
		for id, v := range p.request.LogitBias {
			biases[id] = float32(v)
		}
		err = errors.Join(err, update(s, x.biases, biases, p.row))
	} else {
		ops.SliceUpdate(s, x.biases, x.noBiases, row...)
	}
	return err
}

// rehearse does what begin does for any request, so that its kernels are compiled.
func (x *texts) rehearse(s *kompute.Stream) error {
	q := &sequence{request: &Request{}, tokens: []int32{0}, penalties: &penalties{}, admission: math.MaxUint64}
	err := x.begin(s, &piece{sequence: q, first: 1})
	x.admissions[0] = 0
	return err
}

// update makes a row of a matrix what is given.
func update(s *kompute.Stream, matrix *kompute.Tensor[float32], values []float32, row int) error {
	given, err := kompute.New(s.Device(), values, 1, len(values))
	if err != nil {
		return err
	}
	ops.SliceUpdate(s, matrix, given, ops.At(row), ops.At(0))
	return given.Close()
}

// add counts the tokens before a piece that are not counted yet.
func (x *texts) add(s *kompute.Stream, p *piece) error {
	from := x.counted[p.row]
	ids, each := make([]uint32, p.first-from), make([]uint32, p.first-from)
	for i := range ids {
		ids[i], each[i] = uint32(p.tokens[from+i]), p.penalties.amount(from+i)
	}
	tokens, err := kompute.New(s.Device(), ids, len(ids))
	if err != nil {
		return err
	}
	amounts, err := kompute.New(s.Device(), each, len(each))
	if err != nil {
		return errors.Join(err, tokens.Close())
	}
	ops.Tally(s, x.counts, ops.Fill(s, int32(p.row), len(ids)), tokens, amounts)
	return errors.Join(tokens.Close(), amounts.Close())
}

func (x *texts) close() error {
	return errors.Join(x.counts.Close(), x.penalties.Close(), x.biases.Close(), x.noCounts.Close(), x.noBiases.Close())
}
