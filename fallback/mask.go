package fallback

import (
	"math"
	"math/bits"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Mask sets logits to -Inf, in place, where allowed has a 0: bit v%32 of allowed[n, v/32] is that of
// logits[n, v]. The other logits are neither read nor written. logits are float32 [N, V], allowed
// uint32 [N, ceil(V/32)], whose bits from V on do not matter.
//
// Errors: ErrInvalid for other shapes or types.
func Mask(logits, allowed array.Array) error {
	c := checker{op: "mask"}
	c.array("logits", &logits)
	c.dtype("logits", &logits, array.Float32)
	c.rank("logits", &logits, 2)
	c.array("allowed", &allowed)
	c.dtype("allowed", &allowed, array.Uint32)
	if c.err == nil {
		c.shape("allowed", &allowed, []int{logits.Shape[0], (logits.Shape[1] + 31) / 32})
	}
	if c.err != nil || logits.Size() == 0 {
		return c.err
	}
	cols := logits.Shape[1]
	parallel(logits.Size(), 0.1, func(lo, hi int) {
		for lo < hi {
			n := lo / cols
			end := min(hi, (n+1)*cols)
			maskRow(&logits, &allowed, n, lo-n*cols, end-n*cols)
			lo = end
		}
	})
	return nil
}

// maskRow masks columns [lo, hi) of row n of logits, which are not empty.
func maskRow(logits, allowed *array.Array, n, lo, hi int) {
	to, words := storage[float32](logits), storage[uint32](allowed)
	at, word := logits.Offset+n*logits.Strides[0], allowed.Offset+n*allowed.Strides[0]
	stride := logits.Strides[1]
	for first := lo &^ 31; first < hi; first += 32 {
		gone := ^words[word+first/32*allowed.Strides[1]]
		if first < lo {
			gone &= math.MaxUint32 << (lo - first)
		}
		if hi-first < 32 {
			gone &= 1<<(hi-first) - 1
		}
		// Grammars mostly allow nearly all tokens or nearly none. Words of all ones are passed over by the loop below,
		// and words of all zeros are written at once.
		if gone == math.MaxUint32 && stride == 1 {
			*(*[32]float32)(to[at+first:]) = noneAllowed
			continue
		}
		for ; gone != 0; gone &= gone - 1 {
			to[at+(first+bits.TrailingZeros32(gone))*stride] = noneAllowed[0]
		}
	}
}

// noneAllowed are the logits of a word without a token that is allowed.
var noneAllowed = func() (logits [32]float32) {
	for i := range logits {
		logits[i] = float32(math.Inf(-1))
	}
	return logits
}()
