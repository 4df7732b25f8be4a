package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var penalizeCPU = onCPU(func(a []array.Array, _ *opdef.PenalizeParams) error {
	return fallback.Penalize(at(a, opdef.Penalize.Logits), at(a, opdef.Penalize.Counts), at(a, opdef.Penalize.Penalties), at(a, opdef.Penalize.Rows))
})

// InPrompt is the bit of a count of [Penalize] that says that a token is in the prompt.
const InPrompt uint32 = 1 << opdef.InPromptBit

// PenaltiesSize is the length of a row of the penalties of [Penalize].
const PenaltiesSize = opdef.NumPenaltyParams

// Penalize changes logits [N, V] of tokens that a text already contains, in place, and
// returns logits. counts [S, V] tell what S texts contain: the bit [InPrompt] of a count
// that the token is in the prompt, the bits below how often it is in the answer.
// penalties [S, PenaltiesSize] are those of each text, and rows [N] say which text a row of
// logits continues: none, so that it stays as it is, if negative or at least S. For each
// token whose count in text t is not 0:
//
//	logit *= penalties[t, 0] if logit > 0, else penalties[t, 1]
//	logit -= penalties[t, 2] + penalties[t, 3] * times    if it is in the answer
//
// So with the penalties 1/r, r, p and f, it is the repetition penalty r of Keskar et al.
// (CTRL, 2019), then OpenAI's presence penalty p and frequency penalty f. Each operation
// rounds to float32, so that results are the same on every device, unless they are
// subnormal. [Tally] counts tokens.
//
// # Errors
//
// ErrShape if logits or counts do not have two axes, or the others do not match them;
// ErrInvalid if logits repeat elements (a broadcast view), are wrapped memory
// ([kompute.Wrap]), or share elements with the others.
func Penalize(s *kompute.Stream, logits *kompute.Tensor[float32], counts *kompute.Tensor[uint32], penalties *kompute.Tensor[float32], rows *kompute.Tensor[int32]) *kompute.Tensor[float32] {
	c := newCall(s, opdef.Penalize.Op)
	ll := input(c, opdef.Penalize.Logits, logits)
	cl := input(c, opdef.Penalize.Counts, counts)
	pl := input(c, opdef.Penalize.Penalties, penalties)
	rl := input(c, opdef.Penalize.Rows, rows)
	if c.rank("logits", ll, 2) && c.rank("counts", cl, 2) {
		c.shape("counts", cl, cl.Dim(0), ll.Dim(1))
		c.shape("penalties", pl, cl.Dim(0), PenaltiesSize)
		c.shape("rows", rl, ll.Dim(0))
	}
	c.updates(opdef.Penalize.Logits, opdef.Penalize.Counts, opdef.Penalize.Penalties, opdef.Penalize.Rows)
	if c.err != nil {
		return kompute.Failed[float32](s, c.err)
	}
	if ll.Size() == 0 || cl.Size() == 0 {
		return logits
	}
	var params opdef.PenalizeParams
	enqueue(c, &params, penalizeCPU)
	return logits
}
