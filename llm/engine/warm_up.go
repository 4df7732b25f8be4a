package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// WarmUp compiles the kernels that steps need, so that no request waits for them: a driver may take a second for one,
// and a step of a new size has some fifteen. It captures a step of every size that generates, greedily or not, or has
// pieces of prompts, on every device, and discards it; for a model without a head, the steps of embeddings. What the
// cache of pipelines (KOMPUTE_GO_CACHE_DIR) holds is loaded, not compiled. Steps that give the host the states of a
// model that generates are not prepared.
//
// It stops between two steps when ctx ends, and returns the context's error, and when a request was submitted, which
// has to wait for the step that is being prepared; then it returns [ErrBusy]. It also fails with the errors of the
// device, from which the engine recovers as New says. A step for which there is no memory is left out, and where steps
// cannot be captured, or on the CPU backend, there is nothing to do.
func (e *Engine) WarmUp(ctx context.Context) error {
	if !e.made() {
		return engineError(kompute.ErrClosed)
	}
	for _, c := range e.configs() {
		for _, z := range c.usualSizes(e.headless != nil) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := e.whileIdle(func(open []*replica) error { return prepare(open, &c, z) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// configs returns the configurations of the replicas, which differ where their devices set other limits.
func (e *Engine) configs() (all []Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.replicas {
		if c := *r.scheduler.config; !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// prepare compiles what a step of a size needs, on all devices with that configuration at once.
func prepare(replicas []*replica, c *Config, z size) error {
	errs := make([]error, len(replicas))
	var all sync.WaitGroup
	for i, r := range replicas {
		if *r.scheduler.config == *c {
			all.Go(func() { errs[i] = r.steps.prepare(z) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

func (t *stepper) prepare(z size) error {
	if t.uncaptured || t.sizes[z] != nil || t.model.Device().Backend() == "cpu" {
		return nil
	}
	c, err := t.capture(z)
	if errors.Is(err, kompute.ErrOutOfMemory) {
		return nil // another step will take its place
	}
	if err != nil {
		return err
	}
	if z.adjusted {
		err = t.texts.rehearse(t.stream)
	}
	return errors.Join(err, c.close(), t.stream.Err())
}

// usualSizes returns the sizes of steps that WarmUp prepares, each once. Where rows see many pages, only one token is
// chosen after pieces of prompts: what chooses others does not depend on pages.
func (c *Config) usualSizes(headless bool) (all []size) {
	t := &stepper{config: c}
	known := map[size]bool{}
	add := func(f pendingStep, pages int, p piece) {
		p.sequence.pages = make([]*page, pages)
		f.pieces = []piece{p}
		if z := t.sizeFor(&f); !known[z] {
			known[z] = true
			all = append(all, z)
		}
	}
	pieces := doubling(2, c.mostRows())
	if c.ChunkTokens > 1 {
		pieces = append(pieces, c.ChunkTokens) // of a long prompt
	}
	for _, pages := range doubling(1, t.mostPages()) {
		if headless {
			for _, rows := range pieces {
				add(pendingStep{rows: rows, embedded: rows}, pages, piece{sequence: &sequence{}})
			}
			continue
		}
		for _, s := range []sample.Params{{}, {Temperature: 1}} {
			q := &sequence{request: &Request{Sampling: s}}
			// One with all that changes how a token is chosen.
			full := &sequence{request: &Request{Sampling: s, Logprobs: true}, penalties: &penalties{}, biased: true, guide: &guide{least: 1}}
			for _, rows := range doubling(1, c.Sequences) {
				if pages == 1 {
					for draft := range min(rows, 1+min(c.Draft, 1)) {
						add(pendingStep{rows: rows, chosen: rows, onHost: rows}, pages, piece{sequence: full, count: 1 + draft, chosen: rows, draft: make([]int32, draft)})
					}
				}
				for count := 1; count <= min(rows, 1+min(c.Draft, 1)); count++ {
					add(pendingStep{rows: rows, chosen: rows}, pages, piece{sequence: q, count: count, chosen: rows})
				}
			}
			for _, rows := range pieces {
				for _, chosen := range doubling(1, min(rows-1, c.Sequences)) {
					if chosen <= 1 || pages == 1 { // 0: a step of one row
						add(pendingStep{rows: rows, chosen: chosen}, pages, piece{sequence: q, count: rows, chosen: chosen})
					}
				}
			}
		}
	}
	return all
}

// doubling returns n and its multiples by powers of two below most, and most.
func doubling(n, most int) (all []int) {
	for ; n < most; n *= 2 {
		all = append(all, n)
	}
	return append(all, most)
}
