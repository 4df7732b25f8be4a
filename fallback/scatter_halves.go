package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// scatterHalves scatters numbers of 16 bits. Sums and products are float32 numbers
// until all updates of a place are in them.
func scatterHalves[T array.F16 | array.BF16](s *scattering, mode opdef.ScatterMode, widen func(T) float32, narrow func(float32) T) {
	out, updates := array.Storage[T](*s.out), array.Storage[T](*s.updates)
	combine := combineFloats(mode)
	switch {
	case mode == opdef.ScatterSet:
		scatterInPlace(s, out, updates, func(_, b T) T { return b })
		return
	case mode == opdef.ScatterMin, mode == opdef.ScatterMax, s.picks.size == 1: // nothing is rounded twice
		scatterInPlace(s, out, updates, func(a, b T) T { return narrow(combine(widen(a), widen(b))) })
		return
	}
	s.columns.each(2*s.cost(), func(c cursor, lo, hi int) {
		sums := newPlaceSums(s.places, (hi-lo)*s.picks.size)
		for range hi - lo {
			s.column(&c, func(place, update int) {
				sum, begun := sums.of(place)
				if !begun {
					sum = widen(out[c.off[0]+place*s.stride])
				}
				sums.set(place, combine(sum, widen(updates[update])))
			})
			s.column(&c, func(place, _ int) {
				if sum, begun := sums.of(place); begun {
					out[c.off[0]+place*s.stride] = narrow(sum)
					sums.forget(place)
				}
			})
			c.next()
		}
	})
}

// placeSums are the sums of the places of a column that have updates.
type placeSums struct {
	sums  []float32
	begun []bool
	few   map[int]float32 // instead, if most places have none
}

// newPlaceSums returns sums for columns that together have a number of updates. Memory
// is in proportion to these: an axis may have very many places.
func newPlaceSums(places, updates int) *placeSums {
	if places/8 > updates {
		return &placeSums{few: map[int]float32{}}
	}
	return &placeSums{sums: make([]float32, places), begun: make([]bool, places)}
}

// of returns the sum of a place, if it has begun.
func (p *placeSums) of(place int) (float32, bool) {
	if p.few != nil {
		sum, begun := p.few[place]
		return sum, begun
	}
	return p.sums[place], p.begun[place]
}

func (p *placeSums) set(place int, sum float32) {
	if p.few != nil {
		p.few[place] = sum
		return
	}
	p.sums[place], p.begun[place] = sum, true
}

func (p *placeSums) forget(place int) {
	if p.few != nil {
		delete(p.few, place)
		return
	}
	p.begun[place] = false
}
