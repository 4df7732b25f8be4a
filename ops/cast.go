package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

func castCPU(a []array.Array, _ []byte) error {
	return fallback.Cast(at(a, opdef.Cast.X), at(a, opdef.Cast.Out))
}

// Cast converts every element of x to the type To, in x's shape:
//
//	h := ops.Cast[kompute.BFloat16](s, x)
//
// To a narrower float it rounds to nearest even, and values that are too large
// become infinite. From float to integer it truncates toward zero and clamps to
// the type's range, and NaN gives 0. (MLX leaves the last two undefined.)
// Integers become 16-bit floats by way of float32. Between integers it keeps the low bits. To bool, nonzero and NaN are true;
// from bool, true is 1.
func Cast[To, From kompute.Element](s *kompute.Stream, x *kompute.Tensor[From]) *kompute.Tensor[To] {
	c := newCall(s, opdef.Cast.Op)
	return result[To](c, input(c, opdef.Cast.X, x).Shape, opdef.CastParams{}, castCPU)
}
