package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// indexed reports whether the result is an index along one axis.
func indexed(k opdef.ReduceKind) bool {
	return k == opdef.ReduceArgMax || k == opdef.ReduceArgMin || k == opdef.ReduceGreedy
}

// needsElements reports whether the kind is undefined without elements.
func needsElements(k opdef.ReduceKind) bool {
	return indexed(k) || k == opdef.ReduceAMax || k == opdef.ReduceAMin || k == opdef.ReduceLogSumExp
}

// reducedType returns the type of the result for elements of the given type, or
// false if the kind does not accept them.
func reducedType(k opdef.ReduceKind, dtype array.DType) (array.DType, bool) {
	switch {
	case indexed(k):
		return array.Uint32, k != opdef.ReduceGreedy || dtype.IsFloat()
	case k == opdef.ReduceAll || k == opdef.ReduceAny:
		return array.Bool, true
	case dtype.IsFloat():
		return dtype, true
	case k == opdef.ReduceMean:
		return array.Float32, true
	case k == opdef.ReduceLogSumExp:
		return 0, false
	case (k == opdef.ReduceSum || k == opdef.ReduceProd) && dtype == array.Bool:
		return array.Int32, true
	case (k == opdef.ReduceSum || k == opdef.ReduceProd) && dtype == array.Uint8:
		return array.Uint32, true
	}
	return dtype, true
}

// Reduce reduces the last axes of x to one element each: out has the shape of x's
// leading axes. Result types are those of MLX: out has x's type, with these
// exceptions: uint32 for ArgMax, ArgMin and Greedy, which reduce one axis; bool for
// All and Any; int32 and uint32 for the sum and product of bool and uint8; float32
// for the mean of types other than floats.
//
// Integers wrap around. A NaN makes every float result NaN and is the largest and
// the smallest for ArgMax and ArgMin, which return the first of equal elements; it
// is true for All and Any. Greedy is ArgMax of floats, but [NoToken] for a NaN, +Inf, or
// nothing finite. Without elements, the sum is 0, the product 1, the mean
// NaN, All true and Any false. LogSumExp of nothing but -Inf is -Inf.
//
// Long sums are added up in pieces, and the pieces in pairs, so that errors stay small.
//
// Errors: ErrInvalid for other shapes or types, or for a kind that needs elements
// where there are none.
func Reduce(kind opdef.ReduceKind, x, out array.Array) error {
	c := checker{op: "reduce"}
	c.array("x", &x)
	c.array("out", &out)
	if kind >= opdef.NumReduceKinds {
		c.fail("kind %d does not exist", kind)
	}
	if want, ok := reducedType(kind, x.DType); ok {
		c.dtype("out", &out, want)
	} else {
		c.fail("kind %d does not exist for %v", kind, x.DType)
	}
	if c.err == nil && (len(out.Shape) > len(x.Shape) || indexed(kind) && len(out.Shape)+1 != len(x.Shape)) {
		c.fail("shape %v does not reduce to %v", x.Shape, out.Shape)
	}
	if c.err == nil {
		c.shape("out", &out, x.Shape[:len(out.Shape)])
	}
	if c.err == nil && needsElements(kind) && x.Size() == 0 && out.Size() > 0 {
		c.fail("kind %d of no elements: shape %v", kind, x.Shape)
	}
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	switch {
	case indexed(kind):
		reduceIndexed(kind, &x, &out)
	case x.DType.IsFloat():
		reduceFloats(kind, &x, &out)
	case x.DType == array.Int32:
		reduceInts[int32](kind, &x, &out)
	case x.DType == array.Uint32:
		reduceInts[uint32](kind, &x, &out)
	default:
		reduceInts[uint8](kind, &x, &out)
	}
	return nil
}

// reducePiece is how many elements one partial result covers.
const reducePiece = 1024

// sumInPieces adds up what sum makes of the pieces of a row of any length: in one run, the
// rounding errors of equal numbers have the same sign and add up.
func sumInPieces(row []float32, sum func([]float32) float32) float32 {
	if len(row) <= reducePiece {
		return sum(row)
	}
	half := (len(row)/2 + reducePiece - 1) / reducePiece * reducePiece
	return sumInPieces(row[:half], sum) + sumInPieces(row[half:], sum)
}

// reduction walks the pieces of every result.
type reduction struct {
	outer, inner loop // loops over the results, and over the elements of one
	pieces       int  // of a result
}

func newReduction(x, out *array.Array) reduction {
	kept := len(out.Shape)
	rest := *x
	rest.Layout = array.Layout{Shape: x.Shape[kept:], Strides: x.Strides[kept:]}
	r := reduction{outer: newLoop(kept, x, out), inner: newLoop(len(rest.Shape), &rest)}
	r.pieces = (r.inner.size + reducePiece - 1) / reducePiece
	return r
}

// runs calls f, in order, for the runs of evenly spaced elements of piece i of a
// result: they start at off and are stride apart. done is how many elements of
// the piece came before.
func (r *reduction) runs(base, i int, f func(off, stride, n, done int)) {
	first := i * reducePiece
	total := min(reducePiece, r.inner.size-first)
	last := r.inner.rank - 1
	stride := r.inner.strides[last][0]
	for done := 0; done < total; {
		at := r.inner.seek(r.inner.rank, first+done)
		n := min(total-done, r.inner.shape[last]-at.at[last])
		f(base+at.off[0], stride, n, done)
		done += n
	}
}

// reducePieces computes the partial results of all pieces in parallel, joins
// those of each result in pairs, and stores the outcome. one gets only the
// place of a piece; cost is per element. Results of one piece are stored at once: many
// short rows would have more partial results than there are elements in memory.
func reducePieces[P any](r *reduction, cost float64, one func(base, piece int) P, join func(a, b P) P, empty P, store func(off int, p P)) {
	if r.pieces == 0 {
		at := r.outer.seek(r.outer.rank, 0)
		for range r.outer.size {
			store(at.off[1], empty)
			at.next()
		}
		return
	}
	cost = cost*float64(min(reducePiece, r.inner.size)) + 10
	if r.pieces == 1 {
		r.outer.each(cost, func(at cursor, lo, hi int) {
			for range hi - lo {
				store(at.off[1], one(at.off[0], 0))
				at.next()
			}
		})
		return
	}
	partial := make([]P, r.outer.size*r.pieces)
	parallel(len(partial), cost, func(lo, hi int) {
		at := r.outer.seek(r.outer.rank, lo/r.pieces)
		for i := lo; i < hi; i++ {
			partial[i] = one(at.off[0], i%r.pieces)
			if (i+1)%r.pieces == 0 {
				at.next()
			}
		}
	})
	r.outer.each(float64(5*r.pieces), func(at cursor, lo, hi int) {
		for i := lo; i < hi; i++ {
			store(at.off[1], joinPairs(partial[i*r.pieces:(i+1)*r.pieces], join))
			at.next()
		}
	})
}

// joinPairs joins neighbours until one is left.
func joinPairs[P any](p []P, join func(a, b P) P) P {
	for len(p) > 1 {
		half := (len(p) + 1) / 2
		for i := range len(p) / 2 {
			p[i] = join(p[2*i], p[2*i+1])
		}
		if len(p)%2 == 1 {
			p[half-1] = p[len(p)-1]
		}
		p = p[:half]
	}
	return p[0]
}
