package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// decoder turns a vector's worth of codes into float32 numbers, by a control block
// that says where the codes are (see simd.control).
type decoder struct {
	isa                   isa
	shuffle, shifts, mask reg.VecVirtual
	step                  reg.GPVirtual // bytes of a vector's codes
}

// controlShifts and controlMask are where a control block holds these; the
// shuffle comes first.
const controlShifts, controlMask = 64, 128

func newDecoder(v isa) *decoder {
	d := &decoder{isa: v, shuffle: v.vec(), shifts: v.vec(), mask: v.vec()}
	control := arg("control")
	v.loadInts(Mem{Base: control}, d.shuffle)
	v.loadInts(Mem{Base: control, Disp: controlShifts}, d.shifts)
	VPBROADCASTD(Mem{Base: control, Disp: controlMask}, d.mask)
	d.step = arg("step")
	return d
}

// floats decodes codes from memory to whole float32 numbers.
func (d *decoder) floats(from Mem, to reg.VecVirtual) {
	if d.isa.wide() {
		VBROADCASTI32X4(from, to)
	} else {
		VPBROADCASTQ(from, to)
	}
	VPSHUFB(d.shuffle, to, to)
	VPSRLVD(d.shifts, to, to)
	d.isa.and(d.mask, to, to)
	VCVTDQ2PS(to, to)
}

// dequantize writes one row as float32 numbers, any bits.
func dequantize(v isa) {
	text("writes scale·code + bias for the groups of one row.", "dequantize%s", v.name)("(dst *float32, codes *byte, scales *float32, biases *float32, groups int, vectors int, control *byte, step int)")
	d := newDecoder(v)
	dst, codes, scales, biases, groups, vectors := arg("dst"), arg("codes"), arg("scales"), arg("biases"), arg("groups"), arg("vectors")
	scale, bias, q := v.vec(), v.vec(), v.vec()
	Label("group")
	VBROADCASTSS(Mem{Base: scales}, scale)
	VBROADCASTSS(Mem{Base: biases}, bias)
	ADDQ(U8(4), scales)
	ADDQ(U8(4), biases)
	inner := GP64()
	MOVQ(vectors, inner)
	Label("codes")
	d.floats(Mem{Base: codes}, q)
	VFMADD213PS(bias, scale, q)
	VMOVUPS(q, Mem{Base: dst})
	ADDQ(d.step, codes)
	ADDQ(U8(v.bytes()), dst)
	DECQ(inner)
	JNZ(LabelRef("codes"))
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
