package optest

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
)

func reduceCases() []Case {
	var cases []Case
	add := func(label, kind string, axes []int, x array.Array) {
		keep := len(cases)%2 == 1
		if kind == "greedy" { // it has no options
			axes, keep = []int{-1}, false
		}
		cases = append(cases, Case{Name: kind + "/" + x.DType.String() + "/" + label, In: map[string]array.Array{"x": x},
			Params: Params{Kind: kind, Axes: axes, Keep: keep}})
	}
	for _, kind := range reduceKinds {
		for i, dtype := range reduceTypes(kind) {
			r := newSource(uint64(len(cases)))
			add("last", kind, []int{-1}, reduceOperand(r, kind, dtype, 5, 37))
			add("first", kind, []int{0}, reduceOperand(r, kind, dtype, 41, 6))
			if i == 0 && kind != "prod" {
				add("vocabulary", kind, []int{-1}, reduceOperand(r, kind, dtype, 151936))
				add("vocabulary column", kind, []int{0}, reduceOperand(r, kind, dtype, 151936, 2))
				add("many results", kind, []int{1}, reduceOperand(r, kind, dtype, 20000, 9, 2))
			}
		}
	}
	for _, kind := range concat(sumKinds, extremeKinds, truthKinds, []string{"log_sum_exp"}) {
		r := newSource(uint64(len(cases)))
		add("all", kind, nil, reduceOperand(r, kind, array.Float32, 3, 50, 7))
		add("rank 0", kind, nil, reduceOperand(r, kind, array.Float32))
		add("no axes", kind, []int{}, reduceOperand(r, kind, array.Float32, 4, 3))
		add("some", kind, []int{3, -6, 0}, place(reduceOperand(r, kind, array.Float32, 2, 5, 3, 4, 2, 3, 2, 2), "strided"))
		add("middle", kind, []int{1}, reduceOperand(r, kind, array.Float32, 3, 1500, 20))
		add("result without elements", kind, []int{1}, reduceOperand(r, kind, array.Float32, 0, 3))
	}
	for _, dtype := range elementTypes {
		for _, kind := range concat(sumKinds[:2], truthKinds) {
			add("of no elements", kind, []int{1}, dense(dtype, nil, 3, 0, 2))
		}
	}
	return append(cases, reduceEdges()...)
}

// reduceEdges are rows of NaNs, infinities and equal elements, and long rows in which
// only one element matters.
func reduceEdges() []Case {
	var cases []Case
	inf, nan := math.Inf(1), math.NaN()
	rows := dense(array.Float32, []float64{1, nan, 5, nan, inf, 1, inf, 0, -inf, -inf, -inf, -inf, inf, -inf, 2, 3, 0, 0, 0, 0, 1e-40, -1e-40, 0, 0}, 6, 4)
	last := dense(array.Float32, make([]float64, 3000), 2, 1500)
	setter(last)(1499, 1)
	setter(last)(1500, -1)
	set := setter(last)
	late := dense(array.BFloat16, make([]float64, 6000), 2, 3000)
	set(700, nan)
	set(1501, inf)
	setter(late)(5999, nan)
	far := newSource(7).normal(array.Float32, 1, 6, 4096)
	fill := setter(far)
	for i := range 4096 { // all or half of a row as masks fill it, and others whose exponentials only exist relative to the largest
		fill(i, -math.MaxFloat32)
		if i%512 < 256 {
			fill(4096+i, -math.MaxFloat32)
		}
		fill(2*4096+i, -1e30)
		fill(3*4096+i, -1e20)
		fill(5*4096+i, 3e38)
	}
	fill(4*4096+1000, 1e12)
	cases = append(cases, Case{Name: "log_sum_exp/far", In: map[string]array.Array{"x": far}, Params: Params{Kind: "log_sum_exp", Axes: []int{1}}})
	// Neighbours of these integers, of which float32 has only some, nearly cancel.
	near := dense(array.Int32, []float64{math.MaxInt32, -math.MaxInt32 + 1, 1<<24 + 1, -1 << 24, -1<<24 - 1, 1<<24 + 2}, 3, 2)
	large := dense(array.Int32, make([]float64, 6000), 2, 3000)
	set = setter(large)
	for i := range 6000 {
		set(i, float64(1-2*(i%2))*float64(math.MaxInt32-i%3000*5))
	}
	unsigned := dense(array.Uint32, []float64{1<<32 - 1, 1, 1<<31 + 1, 1<<31 + 1}, 2, 2)
	for name, x := range map[string]array.Array{"near": near, "large": large, "unsigned": unsigned} {
		cases = append(cases, Case{Name: "mean of integers/" + name, In: map[string]array.Array{"x": x}, Params: Params{Kind: "mean", Axes: []int{1}}})
	}
	for _, kind := range concat(extremeKinds, truthKinds, indexKinds, []string{"log_sum_exp", "sum"}) {
		if kind != "all" && kind != "any" { // elsewhere, devices may flush subnormals
			rows := rows
			rows.Layout = must(rows.Slice(0, 0, 5, 1))
			cases = append(cases, Case{Name: kind + "/awkward", In: map[string]array.Array{"x": rows}, Params: Params{Kind: kind, Axes: []int{1}}})
		} else {
			cases = append(cases, Case{Name: kind + "/awkward", In: map[string]array.Array{"x": rows}, Params: Params{Kind: kind, Axes: []int{1}}})
		}
		for name, x := range map[string]array.Array{"long": last, "late": late} {
			cases = append(cases, Case{Name: kind + "/" + name, In: map[string]array.Array{"x": x}, Params: Params{Kind: kind, Axes: []int{-1}}})
		}
	}
	return cases
}
