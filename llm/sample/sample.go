// Package sample turns logits into tokens: greedy, or random at a temperature
// with top-p, min-p and top-k filters.
//
// The filters and their order are those of mlx_lm: top-p, then min-p, then
// top-k, all on the log-probabilities at temperature 1; then one draw from the
// remaining tokens, at the requested temperature. Random numbers come from a
// counter-based generator, so a token depends only on the logits, the seed and the
// number of the step: every backend draws the same tokens.
//
// The op ops.Sample defines the choice in integers and draws on the device;
// [Sampler] does the same on the host.
package sample

import (
	"errors"
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// ErrParams is wrapped by errors about sampling parameters.
var ErrParams = errors.New("invalid sampling parameter")

// ErrLogits is returned where logits hold a NaN, +Inf, or nothing finite.
var ErrLogits = errors.New("invalid logits")

// Params are the sampling parameters. The zero value is greedy.
type Params struct {
	// Temperature divides the log-probabilities; 0 is greedy, and then no other
	// field counts.
	Temperature float64
	// TopP keeps the smallest set of most likely tokens whose probability
	// reaches it; 0 and 1 keep all.
	TopP float64
	// MinP keeps tokens at least MinP times as likely as the likeliest; 0, or less
	// than 2^-64, keeps all.
	MinP float64
	// TopK keeps the TopK most likely tokens; 0 keeps all.
	TopK int
	// Seed chooses the sequence of random numbers.
	Seed uint64
}

// Greedy reports whether p always takes the most likely token.
func (p Params) Greedy() bool { return p.Temperature == 0 }

// Validate returns an error that wraps [ErrParams] and names the parameter that
// is out of range.
func (p Params) Validate() error {
	switch {
	case math.IsNaN(p.Temperature) || p.Temperature < 0 || math.IsInf(p.Temperature, 0):
		return fmt.Errorf("%w: temp %v is not a finite number >= 0", ErrParams, p.Temperature)
	case math.IsNaN(p.TopP) || p.TopP < 0 || p.TopP > 1:
		return fmt.Errorf("%w: top-p %v is not in [0, 1]", ErrParams, p.TopP)
	case math.IsNaN(p.MinP) || p.MinP < 0 || p.MinP > 1:
		return fmt.Errorf("%w: min-p %v is not in [0, 1]", ErrParams, p.MinP)
	case p.TopK < 0:
		return fmt.Errorf("%w: top-k %d is negative", ErrParams, p.TopK)
	}
	return nil
}

// Sampler draws tokens from logits on the host. It is safe for concurrent use.
type Sampler struct{ params Params }

// New returns a sampler, or the error of [Params.Validate].
func New(p Params) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &Sampler{params: p}, nil
}

// Sample returns the token to follow: logits holds one number per token, step
// counts the tokens drawn so far. It fails with an error that wraps
// [ErrLogits], or [ErrParams] for a nil sampler.
func (s *Sampler) Sample(logits []float32, step uint64) (uint32, error) {
	if s == nil {
		return 0, fmt.Errorf("%w: the sampler is nil", ErrParams)
	}
	if len(logits) == 0 || len(logits) >= fallback.MaxSampleRow {
		return 0, fmt.Errorf("%w: there are %d", ErrLogits, len(logits))
	}
	row, err := array.Of(logits, 1, len(logits))
	if err != nil {
		return 0, err
	}
	params, err := array.Of(s.params.Encode(step), opdef.SampleParamsSize)
	if err != nil {
		return 0, err
	}
	var token [1]uint32
	out, err := array.Of(token[:], 1)
	if err != nil {
		return 0, err
	}
	if err := fallback.Sample(row, params, array.Array{}, out, 0); err != nil {
		return 0, err
	}
	return token[0], Check(token[0])
}

// Check returns an error that wraps [ErrLogits] if a token is the one that ops.Sample
// returns when there is nothing to choose from.
func Check(token uint32) error {
	if token == fallback.NoToken {
		return fmt.Errorf("%w: they hold a NaN or +Inf, or nothing finite", ErrLogits)
	}
	return nil
}
