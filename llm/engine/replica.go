package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// replica is one of the engine's models, and the goroutine that runs its steps.
type replica struct {
	engine    *Engine
	host      *model.Host // nil: a lost device is not replaced
	model     model.Model
	steps     *stepper
	scheduler *scheduler
	inFlight  pendingSteps
	working   time.Time // when the host last began to work on steps
	finished  uint64    // number of finished steps
	restarts  int       // since the last finished step
	closeErr  error     // error of closing the steps, once the goroutine has ended
}

// newReplica makes a replica of the model that a host holds, or of one without a host.
func newReplica(e *Engine, h *model.Host, m model.Model) (*replica, error) {
	config := e.config.on(m.Device())
	steps, err := newStepper(m, &config)
	if err != nil && h != nil { // the device may be lost, and nobody has replaced it yet
		if m, err = h.Replace(context.Background(), m, err); err == nil {
			config = e.config.on(m.Device())
			steps, err = newStepper(m, &config)
		}
	}
	if err != nil {
		return nil, err
	}
	return &replica{engine: e, host: h, model: m, steps: steps, scheduler: newScheduler(&config, &e.queue)}, nil
}

// loop runs steps until the engine is closed and nothing is left to do, or until the
// replica can no longer run steps.
func (r *replica) loop() {
	r.resume()
	for {
		f, ok := r.next()
		if !ok {
			break
		}
		if err := r.work(f); err != nil && r.engine.stopped.Err() == nil && !r.restart(err) {
			break // the other replicas have its work, or nothing is left
		}
	}
	if err := r.steps.close(); r.scheduler.open { // otherwise it repeats why no step can be run
		r.closeErr = err
	}
}

// work starts a step, or finishes the oldest one in flight if there is none to start.
func (r *replica) work(f *pendingStep) error {
	e := r.engine
	if f != nil {
		if err := r.steps.start(e.stopped, f); err != nil {
			return err
		}
	} else if err := r.finishOldest(); err != nil {
		return err
	}
	// The host now knows all tokens before those that the oldest step chooses.
	if f := r.inFlight.oldest(); f != nil && f.unchosen {
		return r.steps.choose(e.stopped, f)
	}
	return nil
}

// finishOldest waits for the oldest step in flight, and processes its results.
func (r *replica) finishOldest() error {
	e, f := r.engine, r.inFlight.oldest()
	r.pause()
	err := r.steps.wait(e.stopped, f)
	r.resume()
	if err == nil {
		err = r.steps.read(e.stopped, f)
	}
	if err != nil {
		return err
	}
	host, err := look(f, r.steps.logits[f.slot], e.limits.Vocabulary)
	if err == nil {
		r.finish(f, host)
	}
	return err
}

// pause adds the time that the host has worked on steps.
func (r *replica) pause() {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	r.engine.stats.HostTime += time.Since(r.working)
}

func (r *replica) resume() { r.working = time.Now() }

// next waits for work, and returns a step to start, or nil if the oldest one in
// flight must finish first; ok is false at the end.
func (r *replica) next() (f *pendingStep, ok bool) {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if !e.idling {
			if f, ok, wait := r.plan(); !wait {
				return f, ok
			}
		}
		e.stats.HostTime += time.Since(r.working)
		e.wake.Wait()
		r.resume()
	}
}

// plan is next without waiting; wait reports that there is nothing to do.
func (r *replica) plan() (f *pendingStep, ok, wait bool) {
	e := r.engine
	e.dropCancelled(r.scheduler.running)
	if e.err != nil || e.stopped.Err() != nil {
		e.failAll(r.scheduler.running)
		return nil, false, false
	}
	if f := r.inFlight.next(); f != nil && r.scheduler.plan(f) {
		r.inFlight.started()
		return f, true, false
	}
	if r.inFlight.oldest() != nil {
		return nil, true, false
	}
	if e.closing && !e.queue.busy() {
		return nil, false, false
	}
	return nil, false, true
}

// finish processes the results of a step, except those of sequences that have
// ended meanwhile.
func (r *replica) finish(f *pendingStep, host []choice) {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	r.inFlight.finished()
	e.stats.Steps++
	r.finished++
	r.restarts = 0
	e.stats.StepRequests += uint64(len(f.pieces))
	states := f.states
	for i := range f.pieces {
		p := &f.pieces[i]
		e.stats.PromptTokens += uint64(p.promptTokens())
		if p.embed != nil {
			r.embedded(p, states[:p.count*e.limits.Width])
			states = states[p.count*e.limits.Width:]
		}
		if p.chosen == 0 {
			continue
		}
		p.pending -= p.chosen
		if p.ended.Load() {
			continue
		}
		e.take(f, p, host)
	}
}

// take passes on the tokens chosen after a piece: one or, with a draft, one more for
// each token that was guessed right.
func (e *Engine) take(f *pendingStep, p *piece, host []choice) {
	for j := range p.chosen {
		c := choice{id: f.tokens[p.at+j]}
		if p.needsLogits() {
			c = host[p.at+j]
		}
		if p.err != nil && j == p.errAt {
			c.err = p.err
		}
		if c.err == nil {
			c.err = sample.Check(c.id)
		}
		if c.err != nil {
			e.end(p.sequence, generate.FinishError, c.err)
			return
		}
		e.stats.GeneratedTokens++
		if j > 0 {
			e.stats.AcceptedTokens++
		}
		if p.accept(int(c.id), c.about) {
			e.end(p.sequence, "", nil)
			return
		}
		if j < len(p.draft) && int32(c.id) != p.draft[j] {
			break
		}
	}
	if len(p.draft) > 0 && p.on != nil { // tokens after a wrong guess must be fed again
		p.fed = len(p.tokens) - 1
	}
}

// mostRestarts is how often in a row steps are started again on a device that is not
// lost. After that it counts as lost if a host can replace it. It is also how often a
// request is computed again without getting a token.
const mostRestarts = 3

// blame counts a failure of steps against the requests in them, and ends those that have
// failed too often without getting a token: computed once more, they would fail at the
// same place, and everybody else would be computed again with them. If no step has
// finished since the last failure, the device is to blame, and restarts counts that.
func (r *replica) blame(cause error) {
	if r.restarts > 0 || errors.Is(cause, kompute.ErrDeviceLost) {
		return
	}
	for q := range r.inFlight.sequences() {
		if q.ended.Load() || q.on != nil && q.on != r.scheduler {
			continue // another replica may be computing it
		}
		if n := q.generated(); n > q.failedAt {
			q.failures, q.failedAt = 0, n
		}
		if q.failures++; q.failures > mostRestarts {
			r.engine.end(q, generate.FinishError, fmt.Errorf("engine: steps with this request failed too often: %w", cause))
		}
	}
}

// restart continues after steps have failed: running requests are computed again from
// their known tokens. It returns false if the replica can no longer run steps; then
// the other replicas get its work.
func (r *replica) restart(cause error) bool {
	r.pause() // replacing a device is not work on steps
	defer r.resume()
	e := r.engine
	e.mu.Lock()
	r.blame(cause)
	under := len(r.scheduler.running)
	r.scheduler.lose()
	r.inFlight = pendingSteps{}
	e.wake.Broadcast()
	e.mu.Unlock()
	old := r.model.Device()
	_ = r.steps.close() // they have failed, and may return that error again
	for lost := false; ; {
		if r.restarts == mostRestarts && r.host != nil && !errors.Is(cause, kompute.ErrDeviceLost) {
			cause = fmt.Errorf("%w, for steps failed too often: %w", kompute.ErrDeviceLost, cause)
		}
		lost = lost || errors.Is(cause, kompute.ErrDeviceLost)
		m, err := r.modelAfter(cause)
		if err != nil {
			e.fail(r, err)
			return false
		}
		r.model = m
		config := e.config.on(m.Device())
		e.mu.Lock()
		*r.scheduler.config = config
		e.mu.Unlock()
		steps, err := newStepper(m, r.scheduler.config)
		if err != nil {
			cause = err
			continue
		}
		r.steps = steps
		old.Logger().Info("requests are computed again from where they were", slog.Int("requests", under), slog.Any("error", cause),
			slog.String("failed", old.Info().Name), slog.String("device", m.Device().Info().Name))
		e.mu.Lock()
		defer e.mu.Unlock()
		if lost {
			e.stats.Replaced++
		} else {
			e.stats.Restarted++
		}
		r.scheduler.open = true
		return true
	}
}

// modelAfter returns the model to continue with after cause: the host's
// replacement if the device is lost, else the same model, a few times in a row.
func (r *replica) modelAfter(cause error) (model.Model, error) {
	switch {
	case errors.Is(cause, kompute.ErrDeviceLost) && r.host != nil:
		r.restarts = 0
		return r.host.Replace(r.engine.stopped, r.model, cause)
	case errors.Is(cause, kompute.ErrDeviceLost) || r.restarts == mostRestarts:
		return nil, cause
	}
	r.restarts++
	return r.model, nil
}

// fail records that a replica can no longer run steps, and why. The engine ends
// with the last one.
func (e *Engine) fail(r *replica, cause error) {
	if left := e.without(r, cause); left > 0 { // without the lock: the log may be one that asks for the engine's statistics
		r.model.Device().Logger().Error("a device can no longer run steps; other devices take over its requests",
			slog.String("device", r.model.Device().Info().Name), slog.String("error", cause.Error()), slog.Int("left", left))
	}
}

// without takes a replica away, and returns how many take over its requests. If none does,
// the requests are ended.
func (e *Engine) without(r *replica, cause error) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.wake.Broadcast()
	e.queue.schedulers = slices.DeleteFunc(e.queue.schedulers, func(s *scheduler) bool { return s == r.scheduler })
	left := len(e.queue.schedulers)
	stopped := e.stopped.Err() != nil
	if left > 0 && !stopped {
		return left
	}
	if !stopped {
		e.err = engineError(cause)
	}
	// Where the engine was stopped, other replicas may have emptied the queue before this
	// one's requests returned to it.
	e.failAll(nil)
	return 0
}
