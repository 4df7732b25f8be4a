package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var layerNormCPU = onCPU(func(a []array.Array, p *opdef.LayerNormParams) error {
	return fallback.LayerNorm(at(a, opdef.LayerNorm.X), at(a, opdef.LayerNorm.Weight), at(a, opdef.LayerNorm.Bias), at(a, opdef.LayerNorm.Out), p.Eps)
})

// LayerNorm normalizes every row of x [..., N] to mean 0 and variance 1, then
// scales it by weight [N] and adds bias [N] (Ba, Kiros and Hinton, 2016):
//
//	(x - mean) / sqrt(mean((x - mean)²) + eps) * weight + bias
//
// weight may be nil for ones, bias for zeros. For [1, 2, 3] with eps 0 the
// variance is 2/3 and the result [-1.225, 0, 1.225]. float16 and bfloat16 are
// computed in float32 and rounded once. If a variance is not within float32, as that
// of elements of 2e19, it counts as infinite or as 0. A row that contains NaN or an infinity
// becomes all NaN.
//
// # Errors
//
// ErrShape if x has rank 0, or weight or bias has another shape; ErrInvalid for
// an eps that is negative, NaN or infinite.
func LayerNorm[T kompute.Float](s *kompute.Stream, x, weight, bias *kompute.Tensor[T], eps float32) *kompute.Tensor[T] {
	c := newCall(s, opdef.LayerNorm.Op)
	l := input(c, opdef.LayerNorm.X, x)
	cols := c.lastAxis("x", l)
	optionalRow(c, opdef.LayerNorm.Weight, weight, cols)
	optionalRow(c, opdef.LayerNorm.Bias, bias, cols)
	c.eps(eps)
	return result[T](c, l.Shape, opdef.LayerNormParams{Eps: eps}, layerNormCPU)
}
