package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

func copyCPU(a []array.Array, _ []byte) error {
	return fallback.Copy(at(a, opdef.Copy.X), at(a, opdef.Copy.Out))
}

// Copy returns x in its own contiguous storage, with the same shape and bits.
// It turns a transposed or sliced view into a tensor that can be reshaped, or
// kept after its base is closed. For x [2, 3] transposed to [3, 2], whose
// strides are [1, 3], the copy has strides [2, 1].
func Copy[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newCall(s, opdef.Copy.Op)
	return result[T](c, input(c, opdef.Copy.X, x).Shape, opdef.CopyParams{}, copyCPU)
}
