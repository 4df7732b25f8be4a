package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halfScalesFamily writes what makes the factors of 4-bit floats from scales that are bytes.
func halfScalesFamily() {
	v := avx512
	halfScales("E8M0", "", func() func(x reg.VecVirtual) {
		least := v.constant(0x00400000)
		return func(x reg.VecVirtual) {
			zero := K()
			VPTESTNMD(x, x, zero)
			VPSLLD(U8(23), x, x)
			VMOVDQA32(least, zero, x) // 2^-127 is subnormal
		}
	})
	halfScales("E4M3", " 127 and 255 give NaNs.", func() func(x reg.VecVirtual) {
		rest, normal, small := v.constant(0x7f), v.constant(8), v.constant(0x3b000000) // 2^-9
		bias, sign, nan := v.constant(120<<23), v.constant(0x80000000), v.constant(0x7fc00000)
		return func(x reg.VecVirtual) {
			magnitude, subnormal, isSmall, isNaN := ZMM(), ZMM(), K(), K()
			VPANDD(rest, x, magnitude)
			VPCMPUD(U8(1), normal, magnitude, isSmall) // less
			VPCMPEQD(rest, magnitude, isNaN)
			VCVTDQ2PS(magnitude, subnormal)
			VMULPS(small, subnormal, subnormal)
			VPSLLD(U8(20), magnitude, magnitude)
			VPADDD(bias, magnitude, magnitude)
			VMOVDQA32(subnormal, isSmall, magnitude)
			VMOVDQA32(nan, isNaN, magnitude)
			VPSLLD(U8(24), x, x)
			VPANDD(sign, x, x)
			VPORD(magnitude, x, x)
		}
	})
}

// halfScales writes one of them; convert makes numbers of 16 bytes, each in a lane.
func halfScales(name, doc string, constants func() (convert func(x reg.VecVirtual))) {
	text("sets scales to halves of the numbers that 16 times count bytes are, and biases to them times -6, and returns the largest byte."+doc, "half%sAVX512", name)(
		"(scales, biases *float32, codes *byte, count int) uint32")
	scales, biases, codes, count := arg("scales"), arg("biases"), arg("codes"), arg("count")
	v := avx512
	half, six, largest := v.constant(0x3f000000), v.constant(0xc0c00000), ZMM()
	convert := constants()
	v.zero(largest)
	Label("loop")
	x, r := ZMM(), ZMM()
	VPMOVZXBD(Mem{Base: codes}, x)
	VPMAXUD(x, largest, largest)
	convert(x)
	VMULPS(half, x, r)
	VMOVUPS(r, Mem{Base: scales})
	VMULPS(six, x, r)
	VMOVUPS(r, Mem{Base: biases})
	ADDQ(U8(16), codes)
	ADDQ(U8(64), scales)
	ADDQ(U8(64), biases)
	DECQ(count)
	JNZ(LabelRef("loop"))
	across(largest, VPMAXUD)
	result := GP32()
	VMOVD(largest.AsX(), result)
	Store(result, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
