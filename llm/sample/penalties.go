package sample

import (
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Penalties change logits of tokens that a text contains already, before the next one is
// chosen. The zero value changes nothing.
type Penalties struct {
	// Repetition divides positive logits of tokens that the prompt or the answer contains,
	// and multiplies negative ones (Keskar et al., 2019). At least 1e-30, with which logits stay
	// finite; 0 and 1 change nothing.
	Repetition float64
	// Presence is subtracted from the logits of tokens that the answer contains, and Frequency
	// once for each time that it contains them, as in OpenAI's API. Both are finite as float32;
	// 0 changes nothing.
	Presence, Frequency float64
}

// Validate rejects penalties with kompute.ErrInvalid unless they are as documented.
func (p Penalties) Validate() error {
	finite := func(v float64) bool { return v >= -math.MaxFloat32 && v <= math.MaxFloat32 }
	switch {
	case p.Repetition != 0 && !(p.Repetition >= 1e-30 && finite(p.Repetition)):
		return fmt.Errorf("%w: the repetition penalty %v is neither 0 nor a float32 of at least 1e-30", kompute.ErrInvalid, p.Repetition)
	case !finite(p.Presence) || !finite(p.Frequency):
		return fmt.Errorf("%w: the presence penalty %v and the frequency penalty %v must be finite as float32", kompute.ErrInvalid, p.Presence, p.Frequency)
	}
	return nil
}

// None reports whether they change nothing.
func (p Penalties) None() bool {
	return (p.Repetition == 0 || p.Repetition == 1) && p.Presence == 0 && p.Frequency == 0
}

// Encode returns a row of the penalties of [ops.Penalize].
func (p Penalties) Encode() (row [ops.PenaltiesSize]float32) {
	repetition := p.Repetition
	if repetition == 0 {
		repetition = 1
	}
	row[opdef.PenaltyPositive], row[opdef.PenaltyOther] = float32(1/repetition), float32(repetition)
	row[opdef.PenaltyPresence], row[opdef.PenaltyFrequency] = float32(p.Presence), float32(p.Frequency)
	return row
}
