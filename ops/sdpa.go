package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var sdpaCPU = onCPU(func(a []array.Array, p *opdef.SDPAParams) error {
	return fallback.SDPA(at(a, opdef.SDPA.Q), at(a, opdef.SDPA.K), at(a, opdef.SDPA.V), at(a, opdef.SDPA.Mask), at(a, opdef.SDPA.KeyLength), at(a, opdef.SDPA.Out), fallback.SDPAParams{Scale: p.Scale, Causal: p.Causal != 0})
})

// SDPAParams are the parameters of an attention. The zero value is full
// attention with the usual scale.
type SDPAParams[T kompute.Float] struct {
	// Scale multiplies q·k; 0 means 1/sqrt(D).
	Scale float32
	// Causal lets query i see the keys up to L - Tq + i, where L is the key
	// length: the last query sees every key.
	Causal bool
	// Mask is true where a query may see a key. It broadcasts to [B, Hq, Tq,
	// Tk], may be nil, and excludes Bias.
	Mask *kompute.Tensor[bool]
	// Bias is added to q·k·Scale. It broadcasts to [B, Hq, Tq, Tk]; -Inf hides a
	// key; may be nil. Finite numbers in it must be below 2e38 in magnitude, since
	// devices multiply them by log2(e). The lowest float32 and bfloat16 numbers, with
	// which some masks are filled, may be used as well: keys that have one weigh
	// nothing beside others, and alike where a row has no others.
	Bias *kompute.Tensor[T]
	// KeyLength, of shape [] or [1], holds the number of the Tk keys that are
	// valid when the op runs: the used part of a cache. It is clamped to 0…Tk;
	// nil means Tk.
	KeyLength *kompute.Tensor[int32]
}

// SDPA is scaled dot-product attention (Vaswani et al., 2017):
//
//	softmax(q·kᵀ * Scale + Bias) · v
//
// with q [B, Hq, Tq, D], k [B, Hkv, Tk, D] and v [B, Hkv, Tk, Dv], to
// [B, Hq, Tq, Dv]. Hq is a multiple of Hkv, and query head h reads key head
// h / (Hq/Hkv): with 16 and 8 heads, grouped-query attention of pairs. k and v
// are often views of a longer cache [B, Hkv, capacity, D], and may be of another type
// than q, such as float32 queries over a bfloat16 cache.
//
// Scores and sums are float32 for every T. Magnitudes of q·k·Scale must stay below
// 2.3e38, beyond which results differ from device to device. A query that sees no key gives
// zeros. (MLX gives NaN if -Inf hides every key, and the mean of v if a bool
// mask does.) Values of keys that a query does not see do not matter to it, even
// if they are not finite.
//
// # Errors
//
// ErrShape if q, k or v does not have four axes or their shapes do not match, a
// mask does not broadcast, or KeyLength does not have one element; ErrInvalid
// if Mask and Bias are both given, or Scale is not finite.
func SDPA[T, C kompute.Float](s *kompute.Stream, q *kompute.Tensor[T], k, v *kompute.Tensor[C], p SDPAParams[T]) *kompute.Tensor[T] {
	c := newCall(s, opdef.SDPA.Op)
	ql, kl, vl := input(c, opdef.SDPA.Q, q), input(c, opdef.SDPA.K, k), input(c, opdef.SDPA.V, v)
	if !c.rank("q", ql, 4) || !c.rank("k", kl, 4) || !c.rank("v", vl, 4) || !c.heads(ql, kl, vl) {
		return kompute.Failed[T](s, c.err)
	}
	switch {
	case p.Mask != nil && p.Bias != nil:
		c.fail(kompute.ErrInvalid, "Mask and Bias are both given")
	case p.Mask != nil:
		input(c, opdef.SDPA.Mask.Called("Mask"), p.Mask)
	default:
		optional(c, opdef.SDPA.Mask.Called("Bias"), p.Bias)
	}
	if c.err == nil && c.args[opdef.SDPA.Mask.Index].View != nil {
		c.stretch(opdef.SDPA.Mask, []int{ql.Dim(0), ql.Dim(1), ql.Dim(2), kl.Dim(2)})
	}
	c.keyLength(p.KeyLength)
	params := opdef.SDPAParams{Scale: c.attentionScale(p.Scale, ql.Dim(3)), Causal: toUint32(p.Causal)}
	return result[T](c, []int{ql.Dim(0), ql.Dim(1), ql.Dim(2), vl.Dim(3)}, params, sdpaCPU)
}

// attentionScale returns the factor of q·k for heads of d elements; 0 means the usual one.
func (c *call) attentionScale(scale float32, d int) float32 {
	if scale == 0 {
		return float32(1 / math.Sqrt(float64(max(d, 1))))
	}
	if !finite(float64(scale)) {
		c.fail(kompute.ErrInvalid, "the scale is %v", scale)
	}
	return scale
}

// heads checks the shapes of q, k and v against each other.
func (c *call) heads(q, k, v array.Layout) bool {
	hq, hkv := q.Dim(1), k.Dim(1)
	switch {
	case q.Dim(0) != k.Dim(0) || q.Dim(0) != v.Dim(0):
		c.fail(kompute.ErrShape, "batches of q, k and v differ: %d, %d and %d", q.Dim(0), k.Dim(0), v.Dim(0))
	case hkv != v.Dim(1) || k.Dim(2) != v.Dim(2):
		c.fail(kompute.ErrShape, "k has %d heads of %d keys, v %d of %d", hkv, k.Dim(2), v.Dim(1), v.Dim(2))
	case q.Dim(3) != k.Dim(3):
		c.fail(kompute.ErrShape, "q has heads of %d elements, k of %d", q.Dim(3), k.Dim(3))
	case hkv == 0 && hq != 0, hkv != 0 && hq%hkv != 0:
		c.fail(kompute.ErrShape, "%d query heads are not a multiple of %d key heads", hq, hkv)
	}
	return c.err == nil
}

// keyLength appends the key length, as [1].
func (c *call) keyLength(t *kompute.Tensor[int32]) {
	l, present := optional(c, opdef.SDPA.KeyLength.Called("KeyLength"), t)
	switch {
	case !present || c.err != nil:
	case l.Rank() == 0:
		l, _ = l.ExpandDims(0)
		c.relayout(opdef.SDPA.KeyLength, l)
	default:
		c.shape("KeyLength", l, 1)
	}
}
