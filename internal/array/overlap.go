package array

import (
	"cmp"
	"slices"
)

// span is the set of multiples of stride with factors lo…hi.
type span struct{ stride, lo, hi int }

// overlapSteps limits the search below; views that need more steps count as
// overlapping.
const overlapSteps = 4096

// Overlap reports whether two views of one storage share an element: whether
// some a.Offset + Σ i·a.Strides equals some b.Offset + Σ j·b.Strides.
func Overlap(a, b Layout) bool {
	if a.Size() == 0 || b.Size() == 0 {
		return false
	}
	alo, ahi := a.Extent()
	blo, bhi := b.Extent()
	if ahi <= blo || bhi <= alo {
		return false
	}
	steps := overlapSteps
	return reach(b.Offset-a.Offset, mergeSpans(append(spans(a, 1), spans(b, -1)...)), &steps)
}

// Repeats reports whether two elements of a view share memory.
func (l Layout) Repeats() bool {
	if l.Size() == 0 || nested(l) {
		return false
	}
	for i, n := range l.Shape {
		if n > 1 && l.Strides[i] == 0 {
			return true
		}
	}
	for i, n := range l.Shape {
		if n == 1 {
			continue
		}
		// Two different indices whose first difference is along axis i.
		all := []span{{l.Strides[i], 1, n - 1}}
		for j := i + 1; j < l.Rank(); j++ {
			if l.Shape[j] > 1 {
				all = append(all, span{l.Strides[j], 1 - l.Shape[j], l.Shape[j] - 1})
			}
		}
		steps := overlapSteps
		if reach(0, mergeSpans(all), &steps) {
			return true
		}
	}
	return false
}

// nested reports whether each axis' stride exceeds the span of the later axes,
// as in slices of a contiguous tensor: then no two elements share memory.
func nested(l Layout) bool {
	span := 1
	for i := l.Rank() - 1; i >= 0; i-- {
		if l.Shape[i] == 1 {
			continue
		}
		if l.Strides[i] < span {
			return false
		}
		span += (l.Shape[i] - 1) * l.Strides[i]
	}
	return true
}

// Covers reports whether l maps its elements one to one to the first n
// elements of the storage.
func Covers(l Layout, n int) bool {
	if l.Size() != n || l.Offset != 0 {
		return n == 0
	}
	if l.IsContiguous() {
		return true
	}
	// A permutation of a contiguous layout: each stride is the product of the
	// axes that have smaller ones.
	var used [MaxRank]bool
	stride := 1
	for range l.Shape {
		found := false
		for i, d := range l.Shape {
			if !used[i] && d > 1 && l.Strides[i] == stride {
				used[i], found = true, true
				stride *= d
				break
			}
		}
		if !found {
			break
		}
	}
	return stride == n
}

// spans lists what each axis adds to an index; sign -1 subtracts.
func spans(l Layout, sign int) []span {
	var out []span
	for i, n := range l.Shape {
		if n == 1 || l.Strides[i] == 0 {
			continue
		}
		s := span{l.Strides[i], 0, n - 1}
		if sign < 0 {
			s.lo, s.hi = 1-n, 0
		}
		out = append(out, s)
	}
	return out
}

// mergeSpans sorts by stride, largest first, and merges equal ones. Strides
// become positive.
func mergeSpans(all []span) []span {
	for i, s := range all {
		if s.stride < 0 {
			all[i] = span{-s.stride, -s.hi, -s.lo}
		}
	}
	slices.SortFunc(all, func(x, y span) int { return cmp.Compare(y.stride, x.stride) })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].stride == s.stride {
			out[n-1].lo += s.lo
			out[n-1].hi += s.hi
			continue
		}
		out = append(out, s)
	}
	return out
}

// reach reports whether target is a sum of the spans. Each step tries only those
// multiples of the largest stride from which the remaining spans can still reach
// target; for views of one tensor these are one or two.
func reach(target int, all []span, steps *int) bool {
	if *steps--; *steps < 0 {
		return true
	}
	if len(all) == 0 {
		return target == 0
	}
	lo, hi := 0, 0 // the range that the remaining spans can add
	for _, s := range all[1:] {
		lo += s.lo * s.stride
		hi += s.hi * s.stride
	}
	s := all[0]
	first := max(s.lo, ceilDiv(target-hi, s.stride))
	last := min(s.hi, floorDiv(target-lo, s.stride))
	for n := first; n <= last; n++ {
		if reach(target-n*s.stride, all[1:], steps) {
			return true
		}
	}
	return false
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b != 0 && a < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int) int { return -floorDiv(-a, b) }
