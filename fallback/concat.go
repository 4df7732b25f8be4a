package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Concat copies arrays to out, one after another along axis. All have one type and,
// except along that axis, one shape; along it, out is as long as all of them
// together.
//
// Errors: ErrInvalid for other shapes or types, or no arrays.
func Concat(xs []array.Array, out array.Array, axis int) error {
	c := checker{op: "concat"}
	c.array("out", &out)
	if c.err == nil && (len(xs) == 0 || axis < 0 || axis >= len(out.Shape)) {
		c.fail("%d arrays along axis %d of %v", len(xs), axis, out.Shape)
	}
	if c.err != nil {
		return c.err
	}
	length := 0
	want := slices.Clone(out.Shape)
	for i := range xs {
		x := &xs[i]
		c.array("x", x)
		c.dtype("x", x, out.DType)
		c.rank("x", x, len(out.Shape))
		if c.err != nil {
			return c.err
		}
		want[axis] = x.Shape[axis]
		c.shape("x", x, want)
		length += x.Shape[axis]
	}
	if length != out.Shape[axis] {
		c.fail("the parts have %d entries, out %d", length, out.Shape[axis])
	}
	if c.err != nil {
		return c.err
	}
	part := out
	for i := range xs {
		part.Shape = xs[i].Shape
		copyArray(&xs[i], &part)
		part.Offset += part.Shape[axis] * part.Strides[axis]
	}
	return nil
}
