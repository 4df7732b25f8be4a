package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kompute-go/kompute-go/kompute"
)

// StepProfile breaks down the device's time of one kind of step.
type StepProfile struct {
	Rows   int // the number of tokens in such a step
	Chosen int // how many of them are followed by a chosen token
	// Sampled: not all tokens are just the most likely ones.
	Sampled bool
	*kompute.RegionProfile
	// Choice is the choice of tokens where it is a region of its own, which begins when the host
	// knows the tokens of the step before; else nil.
	Choice *kompute.RegionProfile
}

// Profile measures each kind of step that the engine has run, as
// [kompute.Region.Profile] does, with the positions of the last such step. Smaller
// steps come first. Nothing is written to any sequence's keys and values.
//
// With several devices it measures the first. It fails with [ErrBusy] while the engine has
// requests or that device is being replaced, and for good once that device has failed; with
// the errors of Region.Profile; and with kompute.ErrUnsupported where steps are not captured.
// New requests wait until it is done.
func (e *Engine) Profile(ctx context.Context, times int) (all []StepProfile, err error) {
	err = e.whileIdle(func(open []*replica) error {
		if !slices.Contains(open, e.replicas[0]) {
			return ErrBusy
		}
		all, err = e.replicas[0].steps.profile(ctx, times)
		return err
	})
	return all, err
}

func (t *stepper) profile(ctx context.Context, times int) ([]StepProfile, error) {
	if t.uncaptured {
		return nil, fmt.Errorf("engine: %w: this device cannot capture steps", kompute.ErrUnsupported)
	}
	var all []StepProfile
	for _, c := range t.lastOfEachKind() {
		nowhere := c.hostPlaces[2*c.rows : 3*c.rows]
		for i := range nowhere {
			nowhere[i] = -1
		}
		if err := c.places.Poke(nowhere, 2*c.rows); err != nil {
			return nil, err
		}
		p := StepProfile{Rows: c.rows, Chosen: c.chosen, Sampled: c.sampled}
		var err error
		if p.RegionProfile, err = c.region.Profile(ctx, times); err == nil && c.choice != nil {
			p.Choice, err = c.choice.Profile(ctx, times)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b StepProfile) int {
		return cmp.Or(cmp.Compare(a.Rows, b.Rows), cmp.Compare(a.Chosen, b.Chosen))
	})
	return all, t.stream.Err()
}

// lastOfEachKind returns the steps that have run: of those that differ only in their slot, the one
// that ran last.
func (t *stepper) lastOfEachKind() map[size]*step {
	last := map[size]*step{}
	for z, c := range t.sizes {
		kind := c.size
		kind.slot = 0
		if z == c.size && c.used > 0 && (last[kind] == nil || last[kind].used < c.used) { // otherwise another one's place, or not the last
			last[kind] = c
		}
	}
	return last
}
