package simd

// split makes the limbs and factors of x, and returns the largest of the bits of its absolute
// values.
func (l *GroupLimbs) split(x []float32) uint32 {
	groups := l.k / l.groupSize
	_, _ = l.factors[2*groups-1], x[l.k-1]
	if l.order == Halves {
		return groupLimbsHalvesAVX512(&l.limbs[0], &x[0], &l.factors[0], groups, l.groupSize/32)
	}
	return groupLimbsNaturalAVX512(&l.limbs[0], &x[0], &l.factors[0], groups, l.groupSize/32)
}

type groupDotsFunc func(out *float32, codes *byte, stride int, scales, biases *float32, groups int, x *byte, powers *float32, blocks, fours int)

// groupDotsForms has the kernels by the order and by groups of 32, 64 and 128.
var groupDotsForms = [2][3]groupDotsFunc{
	Natural: {groupDotsNatural32VNNI512, groupDotsNatural64VNNI512, groupDotsNatural128VNNI512},
	Halves:  {groupDotsHalves32VNNI512, groupDotsHalves64VNNI512, groupDotsHalves128VNNI512},
}

// dots multiplies four times fours rows of whole blocks.
func (l *GroupLimbs) dots(out []float32, w *Codes, fours int) {
	if fours == 0 {
		return
	}
	rows, k := 4*fours, len(l.limbs)/3 // with what is padded
	last := rows*w.Groups + GroupSlack - 1
	_, _, _, _ = out[rows-1], w.Data[(rows-1)*w.Stride+w.bytes(k)-1], w.Scales[last], w.Biases[last]
	kernel := groupDotsForms[l.order][l.groupSize/64]
	kernel(&out[0], &w.Data[0], w.Stride, &w.Scales[0], &w.Biases[0], w.Groups, &l.limbs[0], &l.factors[0], k/groupBlock(l.order, l.groupSize), fours)
}
