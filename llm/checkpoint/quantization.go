package checkpoint

import (
	"maps"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Packing is how MLX packs a matrix: GroupSize consecutive weights along the last
// axis share a scale, and each has Bits bits.
type Packing struct {
	GroupSize int // 32, 64 or 128 in the affine mode
	Bits      int // 1, 2, 3, 4, 5, 6 or 8 in the affine mode
	// Mode is empty for the affine mode, w = scale·q + bias. The others, mxfp4,
	// nvfp4 and mxfp8, have uint8 scales, no biases, and one group size and bits.
	Mode string
}

// words returns how many uint32 hold a row of n weights, which must be whole groups.
// It multiplies within a group, because n·Bits might overflow.
func (p Packing) words(n int) int { return n / p.GroupSize * (p.GroupSize * p.Bits / 32) }

// packings are those of the modes without biases.
var packings = map[string]Packing{
	"mxfp4": {32, 4, "mxfp4"}, "nvfp4": {16, 4, "nvfp4"}, "mxfp8": {32, 8, "mxfp8"},
}

// Quantization is the block of that name in config.json: a default, and
// overrides keyed by module path such as "model.layers.0.mlp.down_proj". The file's
// shapes say how a module without an override is packed, if they agree with any packing.
type Quantization struct {
	Packing
	// Overrides holds the modules that config.json names. The zero Packing stands
	// for false: that module is dense.
	Overrides map[string]Packing
}

const affineMode = "affine"

var (
	groupSizes = []int{32, 64, 128}
	bitWidths  = []int{1, 2, 3, 4, 5, 6, 8}
)

// packing returns the override for a module, or the default. Without an override a
// module is quantized exactly when its file holds scales for it.
func (q *Quantization) packing(module string, hasScales bool) (p Packing, quantized, override bool) {
	if q == nil {
		return Packing{}, false, false
	}
	for _, name := range []string{module, otherName(module)} {
		if p, ok := q.Overrides[name]; ok {
			return p, p != Packing{}, true
		}
	}
	return q.Packing, hasScales, false
}

// otherName returns a module's name with the prefix "model.", or without it if it has
// one: some checkpoints have names without the prefix, but overrides with it.
func otherName(module string) string {
	const prefix = "model."
	if short, ok := strings.CutPrefix(module, prefix); ok {
		return short
	}
	return prefix + module
}

// inferred returns the packing with which matrices of these shapes have in columns; ok
// is false if there is none.
func inferred(weight, scales Tensor, in int) (p Packing, ok bool) {
	if len(weight.Shape) != 2 || len(scales.Shape) != 2 {
		return Packing{}, false
	}
	words, groups := weight.Shape[1], scales.Shape[1]
	if in < 1 || groups < 1 || in%groups != 0 || words > in || words*32%in != 0 {
		return Packing{}, false
	}
	p = Packing{GroupSize: in / groups, Bits: words * 32 / in}
	if scales.DType != array.Uint8 {
		return p, slices.Contains(groupSizes, p.GroupSize) && slices.Contains(bitWidths, p.Bits)
	}
	for _, fixed := range packings {
		if fixed.GroupSize == p.GroupSize && fixed.Bits == p.Bits {
			return fixed, true
		}
	}
	return Packing{}, false
}

// mlxMethod is what quant_method says of MLX's quantization, if anything.
const mlxMethod = "mlx"

// readQuantization reads "quantization" and its mirror "quantization_config".
// Either alone will do; where both are given they must agree, unless the mirror is of
// another method: then it describes the model that was quantized again.
func readQuantization(f *Fields) *Quantization {
	q := readBlock(f, "quantization")
	if q != nil {
		if mirror := f.Object("quantization_config"); mirror != nil && foreign(mirror.Text("quant_method")) {
			return q
		}
	}
	mirror := readBlock(f, "quantization_config")
	switch {
	case q == nil:
		return mirror
	case mirror != nil && (q.Packing != mirror.Packing || !maps.Equal(q.Overrides, mirror.Overrides)):
		f.Fail("quantization_config", "differs from quantization")
	}
	return q
}

// foreign reports whether quant_method names a quantization that is not MLX's.
func foreign(method string) bool { return method != "" && method != mlxMethod }

func readBlock(f *Fields, name string) *Quantization {
	inner := f.Object(name)
	if inner == nil {
		return nil
	}
	if method := inner.Text("quant_method"); foreign(method) {
		inner.Unsupported("quantization method", method, mlxMethod)
	}
	q := &Quantization{Packing: readPacking(inner), Overrides: map[string]Packing{}}
	if q.Mode == "" { // MLX has defaults only for single modules
		inner.Size("group_size")
		inner.Size("bits")
	}
	for _, key := range inner.names() {
		switch key {
		case "group_size", "bits", "mode", "quant_method":
			continue
		}
		if p, ok := readOverride(inner, key); ok {
			if p == nil {
				p = &q.Packing
			}
			q.Overrides[key] = *p
		}
	}
	return q
}

// readOverride reads the block's value for one module: false, true (nil: as the
// default) or an object.
func readOverride(f *Fields, module string) (*Packing, bool) {
	raw, ok := f.get(module)
	if !ok {
		return nil, false
	}
	switch raw.Kind() {
	case 't':
		return nil, true
	case 'f':
		return &Packing{}, true
	case '{':
		if inner := f.Object(module); inner != nil {
			p := readPacking(inner)
			return &p, true
		}
		return nil, false
	}
	f.Fail(module, "%s is neither an object nor true or false", brief(raw))
	return nil, false
}

// readPacking reads group_size, bits and mode. A mode without biases determines the
// other two, which may then be missing; without a mode it is affine, also in
// overrides. The defaults are those of MLX.
func readPacking(f *Fields) Packing {
	mode := f.Text("mode")
	if fixed, known := packings[mode]; known {
		p := Packing{f.SizeOr("group_size", fixed.GroupSize), f.SizeOr("bits", fixed.Bits), mode}
		if p != fixed {
			f.Fail("mode", "%s has groups of %d and %d bits, not of %d and %d", mode, fixed.GroupSize, fixed.Bits, p.GroupSize, p.Bits)
		}
		return fixed
	}
	if mode != "" && mode != affineMode {
		f.Unsupported("quantization mode", mode, append([]string{affineMode}, slices.Sorted(maps.Keys(packings))...)...)
	}
	p := Packing{GroupSize: f.SizeOr("group_size", 64), Bits: f.SizeOr("bits", 4)}
	if !slices.Contains(groupSizes, p.GroupSize) {
		f.Fail("group_size", "%d is not one of %v", p.GroupSize, groupSizes)
	}
	if !slices.Contains(bitWidths, p.Bits) {
		f.Fail("bits", "%d is not one of %v", p.Bits, bitWidths)
	}
	return p
}
