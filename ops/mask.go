package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var maskCPU = onCPU(func(a []array.Array, _ *opdef.MaskParams) error {
	return fallback.Mask(at(a, opdef.Mask.Logits), at(a, opdef.Mask.Allowed))
})

// Mask sets logits [N, V] of tokens that are not allowed to -Inf, in place, and returns
// logits. allowed [N, W] has a bit for each of them, 32 in a word, so that W is V/32,
// rounded up:
//
//	logits[n, v] = -Inf    if allowed[n, v/32]>>(v%32)&1 == 0
//
// The other logits keep their bits, whether they are finite or not. Bits from V on are
// ignored.
//
// It is for structured output: a grammar tells which tokens may come next in a text, as
// such bits, and [Sample] or [Greedy] then chooses among these: never a token whose logit
// is -Inf, but [NoToken] if no finite one is left. Rows that allow the same tokens may share
// their bits, as a broadcast view.
//
// # Errors
//
// ErrShape if logits or allowed do not have two axes, or they do not match; ErrInvalid if
// logits repeat elements (a broadcast view), are wrapped memory ([kompute.Wrap]), or share
// elements with allowed.
func Mask(s *kompute.Stream, logits *kompute.Tensor[float32], allowed *kompute.Tensor[uint32]) *kompute.Tensor[float32] {
	c := newCall(s, opdef.Mask.Op)
	ll := input(c, opdef.Mask.Logits, logits)
	al := input(c, opdef.Mask.Allowed, allowed)
	if c.rank("logits", ll, 2) && c.rank("allowed", al, 2) {
		c.shape("allowed", al, ll.Dim(0), (ll.Dim(1)+31)/32)
	}
	c.updates(opdef.Mask.Logits, opdef.Mask.Allowed)
	if c.err != nil {
		return kompute.Failed[float32](s, c.err)
	}
	if ll.Size() == 0 {
		return logits
	}
	var params opdef.MaskParams
	enqueue(c, &params, maskCPU)
	return logits
}
