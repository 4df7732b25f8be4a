package checkpoint

import (
	"encoding/json"
	"maps"
	"slices"
)

// Affine is MLX's affine quantization: GroupSize consecutive weights along the
// last axis share a scale and a bias, w = scale·q + bias, and q has Bits bits.
type Affine struct {
	GroupSize int // 32, 64 or 128
	Bits      int // 2, 3, 4, 5, 6 or 8
}

// Quantization is the block of that name in config.json: a default, and
// overrides keyed by module path such as "model.layers.0.mlp.down_proj".
type Quantization struct {
	Affine
	// Overrides holds the modules that config.json names. The zero Affine stands
	// for false: that module is dense.
	Overrides map[string]Affine
}

const affineMode = "affine"

var (
	groupSizes = []int{32, 64, 128}
	bitWidths  = []int{2, 3, 4, 5, 6, 8}
)

// For returns how a module is quantized. Without an override a module is
// quantized exactly when its file holds scales for it.
func (q *Quantization) For(module string, hasScales bool) (a Affine, quantized bool) {
	if q == nil {
		return Affine{}, false
	}
	if a, ok := q.Overrides[module]; ok {
		return a, a != Affine{}
	}
	return q.Affine, hasScales
}

// readQuantization reads "quantization" and its mirror "quantization_config".
// Either alone will do; where both are given they must agree.
func readQuantization(f *fields) *Quantization {
	q := readBlock(f, "quantization")
	mirror := readBlock(f, "quantization_config")
	switch {
	case q == nil:
		return mirror
	case mirror != nil && (q.Affine != mirror.Affine || !maps.Equal(q.Overrides, mirror.Overrides)):
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
	q := &Quantization{Affine: readAffine(inner), Overrides: map[string]Affine{}}
	for _, key := range slices.Sorted(maps.Keys(inner.raw)) {
		switch key {
		case "group_size", "bits", "mode", "quant_method":
			continue
		}
		if a, ok := readOverride(inner, key); ok {
			if a == nil {
				a = &q.Affine
			}
			q.Overrides[key] = *a
		}
	}
	f.adopt(name, inner)
	return q
}

// readOverride reads what the block says of one module: false, true (nil: as
// the default) or an object.
func readOverride(f *fields, module string) (*Affine, bool) {
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
		return &Affine{}, true
	case '{':
		inner := f.nested(module)
		a := readAffine(inner)
		f.adopt(module, inner)
		return &a, true
	}
	f.fail(module, "%s is neither an object nor true or false", brief(raw))
	return nil, false
}

// readAffine reads group_size, bits and mode.
func readAffine(f *fields) Affine {
	if mode := f.text("mode"); mode != "" && mode != affineMode {
		f.unsupported("quantization mode", mode, affineMode)
	}
	a := Affine{GroupSize: f.size("group_size", required), Bits: f.size("bits", required)}
	if !slices.Contains(groupSizes, a.GroupSize) {
		f.fail("group_size", "%d is not one of %v", a.GroupSize, groupSizes)
	}
	if !slices.Contains(bitWidths, a.Bits) {
		f.fail("bits", "%d is not one of %v", a.Bits, bitWidths)
	}
	return a
}
