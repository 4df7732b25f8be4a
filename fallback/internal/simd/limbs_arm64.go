package simd

// prepareVector makes the limbs of whole blocks. It returns how many elements
// these have, and whether they are all finite.
func (l *Limbs) prepareVector(x []float32) (done int, finite bool) {
	blocks := len(x) / l.Order.Elements()
	if active == Generic || blocks == 0 {
		return 0, true
	}
	prepare := prepareLimbsNaturalNEON
	if l.Order == Halves {
		prepare = prepareLimbsHalvesNEON
	}
	var largest uint32
	prepare(&l.data[0], &x[0], blocks, &largest)
	return blocks * l.Order.Elements(), largest < 0x7f800000
}
