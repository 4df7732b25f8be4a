package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// headPreparation says how queries or keys of new tokens become those of attention: by a norm, unless it is 0, and a
// rotation.
type headPreparation struct {
	norm        uint32
	gain        *array.Array
	eps         float32
	traditional bool // as in RoPEParams
}

// set sets row to the head of x that begins at an element, with step from one to the next. After each of the steps it
// is rounded as the result of that op would be. space has room for two heads.
func (f *headPreparation) set(row []float32, x *array.Array, at, step int, angles *rotation, space []float32) {
	d := len(row)
	from := floats(x, at, step, d, cut(&space, d))
	if f.norm != 0 {
		normalize(row, from, vector(f.gain, cut(&space, d)), f.eps)
		roundFloats(x.DType, row)
		from = row
	}
	rotated := 2 * len(angles.cos)
	copy(row[rotated:], from[rotated:])
	if rotated == 0 {
		return
	}
	if f.traditional {
		rotateNeighbours(row, from, angles.cos, angles.sin)
	} else {
		simd.RotateHalves(row, from, angles.cos, angles.sin)
	}
	roundFloats(x.DType, row)
}
