package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var tallyCPU = onCPU(func(a []array.Array, _ *opdef.TallyParams) error {
	return fallback.Tally(at(a, opdef.Tally.Counts), at(a, opdef.Tally.Rows), at(a, opdef.Tally.Tokens), at(a, opdef.Tally.Amounts))
})

// Tally adds amounts [N] to counts [S, V], in place, and returns counts:
//
//	counts[rows[n], tokens[n]] += amounts[n]
//
// Several amounts may go to one place; sums wrap around. An amount whose row is negative
// or at least S, or whose token is at least V, is not added; a batch of fixed size uses this
// for unused places. [Penalize] reads such counts: of an answer's tokens with amounts of
// 1, and of the distinct tokens of its prompt with amounts of [InPrompt].
//
// # Errors
//
// ErrShape if counts do not have two axes, or rows, tokens and amounts are not vectors of one
// length; ErrInvalid if counts repeat elements (a broadcast view), are wrapped memory
// ([kompute.Wrap]), or share elements with the others.
func Tally(s *kompute.Stream, counts *kompute.Tensor[uint32], rows *kompute.Tensor[int32], tokens, amounts *kompute.Tensor[uint32]) *kompute.Tensor[uint32] {
	c := newCall(s, opdef.Tally.Op)
	cl := input(c, opdef.Tally.Counts, counts)
	rl := input(c, opdef.Tally.Rows, rows)
	tl := input(c, opdef.Tally.Tokens, tokens)
	al := input(c, opdef.Tally.Amounts, amounts)
	if c.rank("counts", cl, 2) && c.rank("rows", rl, 1) {
		c.shape("tokens", tl, rl.Dim(0))
		c.shape("amounts", al, rl.Dim(0))
	}
	c.updates(opdef.Tally.Counts, opdef.Tally.Rows, opdef.Tally.Tokens, opdef.Tally.Amounts)
	if c.err != nil {
		return kompute.Failed[uint32](s, c.err)
	}
	if rl.Size() == 0 || cl.Size() == 0 {
		return counts
	}
	var params opdef.TallyParams
	enqueue(c, &params, tallyCPU)
	return counts
}
