package fallback

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"sync"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// NoToken is Sample's result for a row that contains a NaN or +Inf, or nothing
// finite.
const NoToken = math.MaxUint32

// SamplePlain returns parameters of temperature 1 without filters, seed 0.
func SamplePlain() []uint32 {
	w := make([]uint32, opdef.SampleParamsSize)
	w[opdef.SampleScale], w[opdef.SampleExponent], w[opdef.SampleMinP] = natural.mantissa, uint32(natural.exponent), farthest
	return w
}

// Sample draws an index from each row of logits. params is [SampleParamsSize], or
// [N, SampleParamsSize] for logits [N, V], one for each row, which then draws as if
// it were row 0 alone. step is int32 [1]; if it is absent, at is used instead. out
// is uint32, with logits' shape without the last axis.
//
// The filters are those of mlx_lm: of the probabilities at temperature 1, the
// smallest set of the likeliest that reaches top-p, those that are at least min-p
// times as likely as the likeliest, and the top-k likeliest; all by falling
// probability, and by index among equals. From the tokens that all filters keep,
// the draw is by Philox with the seed as key and (counter + step, row) as counter:
// the first index at which the running sum of the weights exceeds a random part of
// their total.
//
// Errors: ErrInvalid for other shapes or types, or rows without elements or with
// 2^24 and more.
func Sample(logits, params, step, out array.Array, at int32) error {
	c := checker{op: "sample"}
	c.float("logits", &logits)
	c.lastAxis("logits", &logits)
	c.array("params", &params)
	c.dtype("params", &params, array.Uint32)
	if len(params.Shape) == 2 && len(logits.Shape) == 2 {
		c.shape("params", &params, []int{logits.Shape[0], opdef.SampleParamsSize})
	} else {
		c.shape("params", &params, []int{opdef.SampleParamsSize})
	}
	if step.Present() {
		c.array("step", &step)
		c.dtype("step", &step, array.Int32)
		c.shape("step", &step, []int{1})
	}
	c.array("out", &out)
	c.dtype("out", &out, array.Uint32)
	if c.err == nil {
		c.shape("out", &out, logits.Shape[:len(logits.Shape)-1])
	}
	if n := logits.Dim(-1); c.err == nil && out.Size() > 0 && (n == 0 || n >= MaxSampleRow) {
		c.fail("rows of shape %v have no elements, or too many", logits.Shape)
	}
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	if step.Present() {
		at = storage[int32](&step)[step.Offset]
	}
	sampleRows(&logits, &params, &out, at)
	return nil
}

// Rows of Sample are shorter than MaxSampleRow, so that the sum of all weights of
// a row fits 64 bits.
const MaxSampleRow = 1 << 24

func sampleRows(logits, params, out *array.Array, step int32) {
	own := len(params.Shape) == 2
	set := readSettings(params, params.Offset, step)
	last := len(logits.Shape) - 1
	cols, stride := logits.Shape[last], logits.Strides[last]
	res := storage[uint32](out)
	l := newLoop(last, logits, out)
	l.each(10*float64(cols), func(at cursor, lo, hi int) {
		scratch := borrow(cols)
		defer scratch.release()
		for row := lo; row < hi; row++ {
			set, number := set, uint32(row)
			if own {
				set, number = readSettings(params, params.Offset+row*params.Strides[0], step), 0
			}
			res[at.off[1]] = set.choose(floats(logits, at.off[0], stride, cols, scratch.f), number)
			at.next()
		}
	})
}

// settings are the parameters of Sample.
type settings struct {
	heat    scale
	topK    uint32
	topP    uint32
	minP    uint32
	key     [2]uint32
	counter uint64
}

// readSettings reads the parameters that begin at an element of params.
func readSettings(params *array.Array, from int, step int32) settings {
	last := len(params.Strides) - 1
	var w [opdef.SampleParamsSize]uint32
	s := storage[uint32](params)
	for i := range w {
		w[i] = s[from+i*params.Strides[last]]
	}
	first := uint64(w[opdef.SampleCounter]) | uint64(w[opdef.SampleCounter+1])<<32
	return settings{
		heat: scale{w[opdef.SampleScale], int32(w[opdef.SampleExponent])},
		topK: w[opdef.SampleTopK], topP: w[opdef.SampleTopP], minP: w[opdef.SampleMinP],
		key:     [2]uint32{w[opdef.SampleSeed], w[opdef.SampleSeed+1]},
		counter: first + uint64(int64(step)),
	}
}

// choose draws one index.
func (s *settings) choose(logits []float32, row uint32) uint32 {
	largest := simd.Max(logits) // NaN if there is one
	best := sampleKey(largest)
	if best >= beyondNumbers || best <= unlikeliest {
		return NoToken
	}
	if s.heat.mantissa == 0 {
		for i, v := range logits {
			if v == largest {
				return uint32(i)
			}
		}
	}
	r := Philox([4]uint32{uint32(s.counter), uint32(s.counter >> 32), row, uint32(opdef.PhiloxSample)}, s.key)
	random := uint64(r[0])<<32 | uint64(r[1])
	list := candidateLists.Get().(*[]candidate)
	defer candidateLists.Put(list)
	kept, known := s.likely((*list)[:0], logits, best, largest)
	*list = kept
	if known {
		return s.drawOf(kept, best, random)
	}
	if s.topK|s.topP == 0 && s.minP == farthest {
		if at, known := s.estimatedDraw(logits, largest, random); known {
			return at
		}
	}
	return s.draw(logits, best, s.filter(logits, best), random)
}

// bottom is where the likeliest tokens end: those with larger keys are kept,
// and the first of those with this key.
type bottom struct{ key, ties uint32 }

// filter returns where top-k and top-p end. Both keep a prefix of the same order.
func (s *settings) filter(logits []float32, best uint32) bottom {
	var byCount, byMass bottom
	if s.topK != 0 && int64(s.topK) < int64(len(logits)) {
		byCount = mostLikely(logits, func(uint32) uint64 { return 1 }, func(uint64) uint64 { return uint64(s.topK) })
	}
	if s.topP != 0 {
		weight := func(key uint32) uint64 { return weightOf(exponentBelow(best, key, natural)) }
		byMass = mostLikely(logits, weight, func(total uint64) uint64 {
			high, low := bits.Mul64(total, uint64(s.topP))
			mass := high<<32 | low>>32
			if uint32(low) != 0 {
				mass++
			}
			return mass
		})
	}
	if byCount.key > byMass.key || byCount.key == byMass.key && byCount.ties < byMass.ties {
		return byCount
	}
	return byMass
}

const (
	sampleBins   = 1 << 11
	sampleLevels = 3
)

// The bits of keys that a level examines.
var (
	sampleShift = [sampleLevels]uint{21, 10, 0}
	sampleMask  = [sampleLevels]uint32{sampleBins - 1, sampleBins - 1, sampleBins/2 - 1}
)

// histogram is the working memory of mostLikely.
type histogram struct {
	bins [sampleBins]uint64
	keys []uint32
}

var histograms = sync.Pool{New: func() any { return new(histogram) }}

// mostLikely adds up weights by falling keys until the sum reaches a target, and
// returns where that is. It examines some bits of the keys at a time, from the
// top, and then only the keys with the bits found so far.
func mostLikely(logits []float32, weight func(key uint32) uint64, target func(total uint64) uint64) bottom {
	h := histograms.Get().(*histogram)
	defer histograms.Put(h)
	h.keys = slices.Grow(h.keys[:0], len(logits))[:len(logits)]
	for i, v := range logits {
		h.keys[i] = sampleKey(v)
	}
	keys, prefix, rest := h.keys, uint32(0), uint64(0)
	for level := range sampleLevels {
		clear(h.bins[:])
		shift, mask := sampleShift[level], sampleMask[level]
		total := uint64(0)
		for _, key := range keys {
			w := weight(key)
			total += w
			h.bins[key>>shift&mask] += w
		}
		if level == 0 {
			rest = target(total)
		}
		bin := mask
		for h.bins[bin] < rest {
			rest -= h.bins[bin]
			bin--
		}
		prefix |= bin << shift
		keys = slices.DeleteFunc(keys, func(key uint32) bool { return (key^prefix)>>shift != 0 })
	}
	w := weight(prefix)
	return bottom{prefix, uint32((rest + w - 1) / w)}
}

// draw returns the first index at which the running sum of weights exceeds the
// part r/2^64 of their total.
func (s *settings) draw(logits []float32, best uint32, c bottom, r uint64) uint32 {
	const block = 1024
	var begins []running // of each block
	all := running{}
	for from := 0; from < len(logits); from += block {
		begins = append(begins, all)
		s.sum(&all, logits[from:min(from+block, len(logits))], best, c, math.MaxUint64)
	}
	target, _ := bits.Mul64(all.sum, r)
	n := sort.Search(len(begins), func(i int) bool { return begins[i].sum > target }) - 1 // the last one that begins at or below it
	at := s.sum(&begins[n], logits[n*block:min((n+1)*block, len(logits))], best, c, target)
	return uint32(n*block + at)
}

// running is the sum of the weights of the tokens that are kept, up to some token, and how many of those are ties.
type running struct {
	sum  uint64
	ties uint32
}

// sum adds the weights of tokens until the sum exceeds the target; it returns where that is.
func (s *settings) sum(r *running, logits []float32, best uint32, c bottom, target uint64) int {
	for i, v := range logits {
		key := sampleKey(v)
		if key <= c.key {
			if key < c.key || r.ties == c.ties {
				continue
			}
			r.ties++
		}
		if s.minP != farthest && exponentBelow(best, key, natural) > s.minP {
			continue
		}
		if r.sum += weightOf(exponentBelow(best, key, s.heat)); r.sum > target {
			return i
		}
	}
	return 0
}
