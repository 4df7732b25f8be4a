package fallback

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"sync"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
)

// Filters keep few of the tokens, and those can mostly be found without the weights of all others: their order is that of
// the logits, and top-p needs only to know whether the sum of some weights reaches a part of the sum of all, for which an
// estimate of the latter is enough if the former is not near it. Weights of the tokens that are drawn from are exact.

// candidate is a token that filters may keep.
type candidate struct{ key, index uint32 }

// byOrder compares by falling probability, and by index among equals.
func byOrder(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.key, a.key), cmp.Compare(a.index, b.index))
}

const (
	mostCandidates = 1 << 12
	sampleBlock    = 256 // logits that are compared, or added up, together

	// Without top-k, tokens whose logits are further below the largest one are no candidates. They have less than 5e-5 of
	// its probability.
	candidateGap = 10

	// The relative error of an estimated sum is below this. Exponentials have 3e-7; differences of logits, at the
	// temperature, 6e-6; a block's sum at most 256 roundings, 1.6e-5; and exact weights are cut off by up to 2^-40 each,
	// 1.6e-5 for the longest rows.
	estimateError = 5e-5

	// Draws at smaller scales are not estimated: there, tokens may have weights though the difference of their logits from
	// the largest one is beyond float32.
	leastHeat = 1.0 / (1 << 120)
)

// candidateLists are the working memory of likely.
var candidateLists = sync.Pool{New: func() any { return new([]candidate) }}

// likely appends the tokens that all filters keep to a list. It returns false if that cannot be told without the weights
// of all tokens.
func (s *settings) likely(list []candidate, logits []float32, best uint32, largest float32) ([]candidate, bool) {
	counted := s.topK != 0 && int64(s.topK) < int64(len(logits)) && s.topK <= mostCandidates/2
	bounded := counted || s.minP != farthest // by something else than top-p
	switch {
	case counted:
		list = topCandidates(list, logits, int(s.topK))
	case s.minP != farthest:
		below := float64(s.minP) / (1 << exponentBits) * math.Ln2 // conservatively:
		list = candidatesFrom(list, logits, largest-float32(below*1.0001+1e-3*math.Max(1, math.Abs(float64(largest)))))
	case s.topP != 0:
		list = candidatesFrom(list, logits, largest-candidateGap)
	default:
		return list, false
	}
	if len(list) > mostCandidates {
		return list, false
	}
	slices.SortFunc(list, byOrder)
	if s.topP != 0 {
		n, known := s.nucleus(list, logits, best, largest)
		switch {
		case known:
			list = list[:n]
		case n < 0 || !bounded:
			return list, false
		}
	}
	if s.topK != 0 && !counted && int64(s.topK) < int64(len(list)) {
		list = list[:s.topK]
	}
	if s.minP != farthest {
		list = slices.DeleteFunc(list, func(c candidate) bool { return exponentBelow(best, c.key, natural) > s.minP })
	}
	return list, true
}

// nucleus returns how many of the first tokens in the order reach top-p. If they do not, it returns 0 and false, and if
// that is uncertain, -1 and false.
func (s *settings) nucleus(first []candidate, logits []float32, best uint32, largest float32) (n int, known bool) {
	mass := estimate(logits, largest) * (1 << weightBits) * float64(s.topP) / (1 << 32)
	least, most := mass*(1-estimateError), mass*(1+estimateError)+1
	sum := uint64(0)
	for i, c := range first {
		sum += weightOf(exponentBelow(best, c.key, natural))
		switch {
		case float64(sum) >= most:
			return i + 1, true
		case float64(sum) >= least:
			return -1, false
		}
	}
	return 0, false
}

// estimate returns about the sum of the probabilities of all tokens, where the likeliest has 1.
func estimate(logits []float32, largest float32) (sum float64) {
	scratch := borrow(sampleBlock)
	defer scratch.release()
	for len(logits) > 0 {
		n := min(len(logits), len(scratch.f))
		sum += float64(simd.ExpSum(scratch.f[:n], logits[:n], largest))
		logits = logits[n:]
	}
	return sum
}

// estimatedDraw draws from all tokens, as draw does, by estimated sums. It returns false if the draw is so close to where a
// token's part of the sum begins or ends that exact sums are needed.
func (s *settings) estimatedDraw(logits []float32, largest float32, r uint64) (at uint32, known bool) {
	heat := float32(math.Ldexp(float64(s.heat.mantissa), int(s.heat.exponent)) / math.Log2E)
	if heat < leastHeat {
		return 0, false
	}
	scratch := borrow(sampleBlock)
	defer scratch.release()
	exponentials := func(from int) ([]float32, float64) {
		part := logits[from:min(from+sampleBlock, len(logits))]
		x := scratch.f[:len(part)]
		for i, v := range part {
			x[i] = (v - largest) * heat
		}
		sum := simd.ExpSum(x, x, 0)
		return x, float64(sum)
	}
	ends, total := make([]float64, 0, len(logits)/sampleBlock+1), 0.0
	for from := 0; from < len(logits); from += sampleBlock {
		_, sum := exponentials(from)
		total += sum
		ends = append(ends, total)
	}
	target, margin := float64(r)/(1<<64)*total, 2*estimateError*total
	n := sort.Search(len(ends)-1, func(i int) bool { return ends[i] > target })
	end := 0.0
	if n > 0 {
		end = ends[n-1]
	}
	x, _ := exponentials(n * sampleBlock)
	for i, v := range x {
		begin := end
		if end += float64(v); end > target {
			return uint32(n*sampleBlock + i), end-target > margin && (begin == 0 || target-begin > margin)
		}
	}
	return 0, false
}

// LogSumExp returns the logarithm of the sum of the exponentials of logits, to 3e-5, NaN if one is NaN.
func LogSumExp(logits []float32) float64 {
	largest := simd.Max(logits)
	return float64(largest) + math.Log(estimate(logits, largest))
}

// topCandidates appends the k likeliest tokens.
func topCandidates(list []candidate, logits []float32, k int) []candidate {
	spare := max(k, sampleBlock) // tokens that the list may have beyond k before it is sorted
	floor := float32(math.NaN()) // no number is at most that
	for from := 0; from < len(logits); from += sampleBlock {
		block := logits[from:min(from+sampleBlock, len(logits))]
		if simd.Max(block) <= floor {
			continue
		}
		for i, v := range block {
			if !(v <= floor) {
				list = append(list, candidate{sampleKey(v), uint32(from + i)})
			}
		}
		if len(list) >= k+spare {
			slices.SortFunc(list, byOrder)
			list = list[:k]
			floor = logits[list[k-1].index] // one that is not likelier comes later in the order
		}
	}
	slices.SortFunc(list, byOrder)
	return list[:k]
}

// candidatesFrom appends the tokens whose logits are at least from, and stops when there are too many.
func candidatesFrom(list []candidate, logits []float32, from float32) []candidate {
	for at := 0; at < len(logits) && len(list) <= mostCandidates; at += sampleBlock {
		block := logits[at:min(at+sampleBlock, len(logits))]
		if simd.Max(block) < from {
			continue
		}
		for i, v := range block {
			if v >= from {
				list = append(list, candidate{sampleKey(v), uint32(at + i)})
			}
		}
	}
	return list
}

// drawOf draws one of the kept tokens, as draw does from all.
func (s *settings) drawOf(kept []candidate, best uint32, r uint64) uint32 {
	slices.SortFunc(kept, func(a, b candidate) int { return cmp.Compare(a.index, b.index) })
	total := uint64(0)
	for _, c := range kept {
		total += weightOf(exponentBelow(best, c.key, s.heat))
	}
	target, _ := bits.Mul64(total, r)
	sum := uint64(0)
	for _, c := range kept {
		if sum += weightOf(exponentBelow(best, c.key, s.heat)); sum > target {
			return c.index
		}
	}
	return 0
}
