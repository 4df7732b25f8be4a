package checkpoint

import (
	"maps"
	"slices"
)

// Packing is how MLX packs a matrix: GroupSize consecutive weights along the last
// axis share a scale, and each has Bits bits.
type Packing struct {
	GroupSize int // 32, 64 or 128 in the affine mode
	Bits      int // 2, 3, 4, 5, 6 or 8 in the affine mode
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
// overrides keyed by module path such as "model.layers.0.mlp.down_proj".
type Quantization struct {
	Packing
	// Overrides holds the modules that config.json names. The zero Packing stands
	// for false: that module is dense.
	Overrides map[string]Packing
}

const affineMode = "affine"

var (
	groupSizes = []int{32, 64, 128}
	bitWidths  = []int{2, 3, 4, 5, 6, 8}
)

// packing returns how a module is packed. Without an override a module is
// quantized exactly when its file holds scales for it.
func (q *Quantization) packing(module string, hasScales bool) (p Packing, quantized bool) {
	if q == nil {
		return Packing{}, false
	}
	if p, ok := q.Overrides[module]; ok {
		return p, p != Packing{}
	}
	return q.Packing, hasScales
}

// readQuantization reads "quantization" and its mirror "quantization_config".
// Either alone will do; where both are given they must agree.
func readQuantization(f *Fields) *Quantization {
	q := readBlock(f, "quantization")
	mirror := readBlock(f, "quantization_config")
	switch {
	case q == nil:
		return mirror
	case mirror != nil && (q.Packing != mirror.Packing || !maps.Equal(q.Overrides, mirror.Overrides)):
		f.Fail("quantization_config", "differs from quantization")
	}
	return q
}

func readBlock(f *Fields, name string) *Quantization {
	inner := f.Object(name)
	if inner == nil {
		return nil
	}
	if method := inner.Text("quant_method"); method != "" && method != "mlx" {
		inner.Unsupported("quantization method", method, "MLX "+affineMode)
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
