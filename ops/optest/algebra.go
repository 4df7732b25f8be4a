package optest

import (
	"bytes"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
)

// along says which axis of each operand belongs to an axis of a case's result:
// entry i of the result along its axis depends only on entry i of each operand along
// that operand's axis, and on all of the operands that are not named. Nil means that entries depend on each
// other. An operand's axis of length 1 that repeats may be named too. Params.Shape,
// where a case has one, is the result's and follows it.
type along func(c *Case, axis int) map[string]int

// pointwise is the along of ops that work element by element on operands that
// broadcast.
func pointwise(c *Case, axis int) map[string]int {
	rank := 0
	for _, a := range c.In {
		rank = max(rank, a.Rank())
	}
	axes := map[string]int{}
	for name, a := range c.In {
		if own := axis - rank + a.Rank(); own >= 0 {
			axes[name] = own
		}
	}
	return axes
}

// rowwise is the along of ops that work on the rows of x along its last axis.
func rowwise(c *Case, axis int) map[string]int {
	x := c.In["x"]
	if axis == x.Rank()-1 {
		return nil
	}
	return map[string]int{"x": axis}
}

// copies checks that contiguous copies of a case's operands give the same bits as
// the case, or nearly so where the order of sums depends on layouts.
func (r *runner) copies(t *rapid.T, c *Case, got array.Array) {
	dense := *c
	dense.In = map[string]array.Array{}
	for name, a := range c.In {
		dense.In[name] = compact(a)
	}
	if r.reorders != nil && r.reorders(r.dev) {
		r.against(t, &dense, floats(got))
		return
	}
	again := r.result(t, r.dev, &dense)
	require.Equal(t, got.Data, again.Data, "a view and its copy differ")
}

// slices checks that the op on a slice of its operands gives the slice of its
// result: the same bits, or nearly so where the shape decides how sums are grouped.
func (r *runner) slices(t *rapid.T, c *Case, got array.Array) {
	if r.along == nil || got.Rank() == 0 {
		return
	}
	axis := rapid.IntRange(0, got.Rank()-1).Draw(t, "sliced axis")
	axes, n := r.along(c, axis), got.Shape[axis]
	if axes == nil || n == 0 {
		return
	}
	start := rapid.IntRange(0, n-1).Draw(t, "start")
	stop := rapid.IntRange(start+1, n).Draw(t, "stop")
	step := rapid.IntRange(1, 3).Draw(t, "step")
	part := *c
	part.In = map[string]array.Array{}
	for name, a := range c.In {
		if own, sliced := axes[name]; sliced && a.Shape[own] == n {
			a.Layout = must(a.Slice(own, start, stop, step))
		}
		part.In[name] = a
	}
	if c.Params.Shape != nil {
		part.Params.Shape = slices.Clone(c.Params.Shape)
		part.Params.Shape[axis] = (stop - start + step - 1) / step
	}
	want := got
	want.Layout = must(got.Slice(axis, start, stop, step))
	if r.regroups && !(r.exact != nil && r.exact(c)) {
		r.against(t, &part, floats(want))
		return
	}
	again := r.result(t, r.dev, &part)
	if !bytes.Equal(compact(want).Data, again.Data) {
		t.Fatalf("%s %s: the op on a slice gave %v, the slice of the op is %v", r.op, describe(&part, again), floats(again), floats(want))
	}
}
