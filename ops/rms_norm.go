package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var rmsNormCPU = onCPU(func(a []array.Array, p *opdef.RMSNormParams) error {
	return fallback.RMSNorm(at(a, opdef.RMSNorm.X), at(a, opdef.RMSNorm.Weight), at(a, opdef.RMSNorm.Out), p.Eps)
})

// RMSNorm scales every row of x [..., N] to root mean square 1, and then by
// weight [N] (Zhang and Sennrich, 2019):
//
//	x / sqrt(mean(x²) + eps) * weight
//
// weight may be nil for ones. For [3, 4] with eps 0 the mean square is 12.5 and
// the result [0.849, 1.131]. float16 and bfloat16 are computed in float32 and
// rounded once. If a mean square is not within float32, as that of elements of 2e19,
// it counts as infinite or as 0.
//
// # Errors
//
// ErrShape if x has rank 0 or weight has another shape; ErrInvalid for an eps
// that is negative, NaN or infinite.
func RMSNorm[T kompute.Float](s *kompute.Stream, x, weight *kompute.Tensor[T], eps float32) *kompute.Tensor[T] {
	c := newCall(s, opdef.RMSNorm.Op)
	l := input(c, opdef.RMSNorm.X, x)
	cols := c.lastAxis("x", l)
	optionalRow(c, opdef.RMSNorm.Weight, weight, cols)
	c.eps(eps)
	return result[T](c, l.Shape, opdef.RMSNormParams{Eps: eps}, rmsNormCPU)
}
