package checkpoint

import (
	"encoding/json"
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

// For returns how a module is quantized. Without an override a module is
// quantized exactly when its file holds scales for it.
func (q *Quantization) For(module string, hasScales bool) (p Packing, quantized bool) {
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
func readQuantization(f *fields) *Quantization {
	q := readBlock(f, "quantization")
	mirror := readBlock(f, "quantization_config")
	switch {
	case q == nil:
		return mirror
	case mirror != nil && (q.Packing != mirror.Packing || !maps.Equal(q.Overrides, mirror.Overrides)):
		f.fail("quantization_config", "differs from quantization")
	}
	return q
}

func readBlock(f *fields, name string) *Quantization {
	inner := f.nested(name)
	if inner == nil {
		return nil
	}
	if method := inner.text("quant_method"); method != "" && method != "mlx" {
		inner.unsupported("quantization method", method, "MLX "+affineMode)
	}
	q := &Quantization{Packing: readPacking(inner), Overrides: map[string]Packing{}}
	for _, key := range slices.Sorted(maps.Keys(inner.raw)) {
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
	f.adopt(name, inner)
	return q
}

// readOverride reads what the block says of one module: false, true (nil: as
// the default) or an object.
func readOverride(f *fields, module string) (*Packing, bool) {
	raw, ok := f.get(module)
	if !ok {
		return nil, false
	}
	switch kind(raw) {
	case 't', 'f':
		var on bool
		if json.Unmarshal(raw, &on) == nil && on {
			return nil, true
		}
		return &Packing{}, true
	case '{':
		inner := f.nested(module)
		p := readPacking(inner)
		f.adopt(module, inner)
		return &p, true
	}
	f.fail(module, "%s is neither an object nor true or false", brief(raw))
	return nil, false
}

// readPacking reads group_size, bits and mode. A mode without biases tells the
// other two, which may lack then; without a mode it is affine, in overrides too.
func readPacking(f *fields) Packing {
	mode := f.text("mode")
	if fixed, known := packings[mode]; known {
		p := Packing{f.size("group_size", fixed.GroupSize), f.size("bits", fixed.Bits), mode}
		if p != fixed {
			f.fail("mode", "%s has groups of %d and %d bits, not of %d and %d", mode, fixed.GroupSize, fixed.Bits, p.GroupSize, p.Bits)
		}
		return fixed
	}
	if mode != "" && mode != affineMode {
		f.unsupported("quantization mode", mode, append([]string{affineMode}, slices.Sorted(maps.Keys(packings))...)...)
	}
	p := Packing{GroupSize: f.size("group_size", required), Bits: f.size("bits", required)}
	if !slices.Contains(groupSizes, p.GroupSize) {
		f.fail("group_size", "%d is not one of %v", p.GroupSize, groupSizes)
	}
	if !slices.Contains(bitWidths, p.Bits) {
		f.fail("bits", "%d is not one of %v", p.Bits, bitWidths)
	}
	return p
}
