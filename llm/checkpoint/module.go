package checkpoint

import (
	"fmt"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Module is the weights of one linear layer or embedding, In → Out.
type Module struct {
	Path string // e.g. "model.layers.0.self_attn.q_proj"
	// Weight is [Out, In] of a float type when dense. When quantized it is U32
	// [Out, In·Bits/32]: each row is one little-endian bit stream of codes,
	// lowest bits first.
	Weight Tensor
	// Scales and Biases are [Out, In/GroupSize] of one float type; in the modes
	// without biases scales are U8 and Biases zero. Both are zero when dense.
	Scales, Biases Tensor
	// Bias is the layer's own bias [Out], zero if the file has none.
	Bias      Tensor
	Packing   Packing // zero when dense
	Quantized bool
}

// Expect returns the tensor of that name if it has a float type and the given
// shape. It fails with MissingError or MismatchError.
func (c *Checkpoint) Expect(name string, shape ...int) (Tensor, error) {
	t, err := c.Tensor(name)
	if err != nil {
		return Tensor{}, err
	}
	if !t.DType.IsFloat() || !slices.Equal(t.Shape, shape) {
		return Tensor{}, mismatch(t, fmt.Sprintf("F32, F16 or BF16 %v", shape))
	}
	return t, nil
}

// Module returns the weights of the module at path, which maps in features to
// out, with every shape checked against the configuration. It fails with
// MissingError, MismatchError or ConfigError, and with UnsupportedError for a second,
// global scale.
func (c *Checkpoint) Module(path string, out, in int) (Module, error) {
	m := Module{Path: path}
	if c == nil || c.Config == nil {
		return m, &MissingError{File: c.Name(), Tensor: path}
	}
	hasScales := c.Has(path + ".scales")
	var err error
	var override bool
	m.Packing, m.Quantized, override = c.Config.Quantization.packing(path, hasScales)
	if name := path + ".global_scale"; m.Quantized && c.Has(name) {
		return Module{}, &UnsupportedError{File: c.tensors[name].File, What: "tensor", Got: name}
	}
	if m.Quantized && !override {
		if p, ok := inferred(c.tensors[path+".weight"], c.tensors[path+".scales"], in); ok {
			m.Packing = p
		}
	}
	switch {
	case m.Quantized:
		err = c.quantized(&m, out, in)
	case hasScales && c.Config.Quantization == nil:
		err = &ConfigError{File: c.root + "/" + ConfigFile, Field: "quantization", Reason: fmt.Sprintf("missing, but module %q has scales", path)}
	default:
		m.Weight, err = c.Expect(path+".weight", out, in)
	}
	if err == nil && c.Has(path+".bias") {
		m.Bias, err = c.Expect(path+".bias", out)
	}
	if err != nil {
		return Module{}, err
	}
	return m, nil
}

// quantized fills in the three tensors of a quantized module.
func (c *Checkpoint) quantized(m *Module, out, in int) error {
	var err error
	if m.Weight, err = c.Tensor(m.Path + ".weight"); err != nil {
		return err
	}
	if in%m.Packing.GroupSize != 0 {
		return mismatch(m.Weight, fmt.Sprintf("%d columns, which groups of %d do not divide", in, m.Packing.GroupSize))
	}
	if want := []int{out, m.Packing.words(in)}; m.Weight.DType != array.Uint32 || !slices.Equal(m.Weight.Shape, want) {
		return mismatch(m.Weight, fmt.Sprintf("U32 %v (%d bits, %d columns)", want, m.Packing.Bits, in))
	}
	groups := in / m.Packing.GroupSize
	if m.Packing.Mode != "" {
		return c.smallScales(m, out, groups)
	}
	if m.Scales, err = c.Expect(m.Path+".scales", out, groups); err != nil {
		return err
	}
	if m.Biases, err = c.Expect(m.Path+".biases", out, groups); err != nil {
		return err
	}
	if m.Biases.DType != m.Scales.DType {
		return mismatch(m.Biases, fmt.Sprintf("%s, as the scales are", m.Scales))
	}
	return nil
}

// smallScales fills in the scales of a module in a mode without biases.
func (c *Checkpoint) smallScales(m *Module, out, groups int) error {
	var err error
	if m.Scales, err = c.Tensor(m.Path + ".scales"); err != nil {
		return err
	}
	if want := []int{out, groups}; m.Scales.DType != array.Uint8 || !slices.Equal(m.Scales.Shape, want) {
		return mismatch(m.Scales, fmt.Sprintf("U8 %v (mode %s)", want, m.Packing.Mode))
	}
	if c.Has(m.Path + ".biases") {
		return &ConfigError{File: c.root + "/" + ConfigFile, Field: "quantization", Reason: fmt.Sprintf("module %q has biases, mode %s has none", m.Path, m.Packing.Mode)}
	}
	return nil
}

func mismatch(t Tensor, want string) error {
	return &MismatchError{File: t.File, Tensor: t.Name, Got: t.String(), Want: want}
}
