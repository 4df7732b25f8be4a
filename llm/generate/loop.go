package generate

import (
	"errors"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/ops"
)

// loop is one decode step as a region, and what it keeps on the device: a replay
// takes the token that the one before has chosen, and moves on by itself. The
// host only reads which tokens were chosen.
type loop struct {
	region   *kompute.Region
	capacity int                     // of the cache that it was captured with
	params   *kompute.Tensor[uint32] // how to sample, as of [ops.Sample]; nil is greedy
	token    *kompute.Tensor[uint32] // [1, 1], to be fed next
	state    *kompute.Tensor[int32]  // where it goes while a replay runs; see [model.NewState]
	next     *kompute.Tensor[int32]  // the state of the next replay
	step     *kompute.Tensor[int32]  // what lies between them
	chosen   *kompute.Mapped[uint32] // [capacity], the token that follows each position
}

// start puts the token that a generation begins with, next [1, 1], where the
// loop takes it, if the generation is to be replayed. It enqueues this behind
// the prompt, and while the device works on that it captures the loop, unless
// that was done for the cache as it is and for a choice of the same kind.
func (r *run) start(next *kompute.Tensor[uint32]) error {
	if r.options.Eager || r.options.MaxTokens == 1 || len(r.result.IDs) > 0 || r.uncaptured != nil {
		return nil
	}
	greedy := r.options.Sampling.Greedy()
	if r.loop != nil && (r.loop.capacity != r.cache.Capacity() || (r.loop.params == nil) != greedy) {
		if err := r.closeLoop(); err != nil {
			return err
		}
	}
	if r.loop == nil {
		if err := r.captureLoop(greedy); err != nil {
			return err
		}
	}
	if r.loop == nil {
		return nil // it cannot be captured
	}
	ops.SliceUpdate(r.stream, r.loop.token, next)
	state := kompute.Constant(r.stream, model.NewState(r.cache.Len(), 1), model.StateSize)
	ops.SliceUpdate(r.stream, r.loop.next, state)
	if !greedy {
		// The token after position p is number p + 1 - first, where first is the prompt's end.
		words := r.options.Sampling.Words(uint64(1 - int64(r.cache.Len())))
		ops.SliceUpdate(r.stream, r.loop.params, kompute.Constant(r.stream, words, ops.SampleWords))
	}
	return r.stream.Flush()
}

// captureLoop makes the loop, or notes why this device cannot have one.
func (s *Session) captureLoop(greedy bool) error {
	d, l := s.model.Device(), &loop{capacity: s.cache.Capacity()}
	s.loop = l
	var errs [7]error
	l.token, errs[0] = kompute.Zeros[uint32](d, 1, 1)
	l.state, errs[1] = kompute.Zeros[int32](d, model.StateSize)
	l.step, errs[2] = kompute.New(d, []int32{0, 0, 1, 0, 1})
	l.chosen, errs[3] = kompute.NewMapped[uint32](d, l.capacity)
	l.next, errs[4] = kompute.Zeros[int32](d, model.StateSize)
	if !greedy {
		l.params, errs[5] = kompute.Zeros[uint32](d, ops.SampleWords)
	}
	if errors.Join(errs[:]...) == nil {
		l.region, errs[6] = s.stream.Capture(func(st *kompute.Stream) { s.decodeStep(st, l) })
	}
	err := errors.Join(errs[:]...)
	if err == nil {
		return nil
	}
	if errors.Is(err, kompute.ErrCapture) && errors.Is(err, kompute.ErrUnsupported) {
		s.uncaptured, err = err, nil
	}
	return errors.Join(err, s.closeLoop())
}

// decodeStep feeds the loop's token and chooses the next one. The copies at both
// ends wait for nothing but what the token waits for, so that they run beside
// other work: with one state instead of two they would run alone.
func (s *Session) decodeStep(st *kompute.Stream, l *loop) {
	ops.SliceUpdate(st, l.state, l.next)
	logits := s.model.Forward(st, model.Pass{Tokens: l.token, Cache: s.cache, State: l.state})
	position := l.state.Slice(0, 2, 3)
	defer position.Close()
	next := choose(st, logits, l.params, ops.AtDevice(position))
	state := ops.Add(st, l.state, l.step)
	ops.SliceUpdate(st, l.chosen.Tensor, next.Reshape(1), ops.AtDevice(position))
	ops.SliceUpdate(st, l.token, next)
	ops.SliceUpdate(st, l.next, state)
}

// choose enqueues the choice of the next token from logits [1, 1, V], as [1, 1].
// Without parameters it is the likeliest.
func choose(st *kompute.Stream, logits *kompute.Tensor[float32], params *kompute.Tensor[uint32], step ops.Position) *kompute.Tensor[uint32] {
	if params == nil {
		return ops.ArgMax(st, logits, -1)
	}
	return ops.Sample(st, logits, params, step)
}

// closeLoop gives the loop up, once the device is done with it.
func (s *Session) closeLoop() error {
	l := s.loop
	if l == nil {
		return nil
	}
	s.loop = nil
	var errs []error
	if l.region != nil {
		errs = append(errs, l.region.Close())
	}
	for _, t := range []*kompute.Tensor[int32]{l.state, l.next, l.step} {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	for _, t := range []*kompute.Tensor[uint32]{l.token, l.params} {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	if l.chosen != nil {
		errs = append(errs, l.chosen.Close())
	}
	return errors.Join(errs...)
}
