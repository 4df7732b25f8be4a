package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/kompute-go/kompute-go/llm/engine"
)

func init() {
	register.DoFn4x1[context.Context, []byte, func(string), func(string), error](&answerFn{})
	register.Emitter1[string]()
}

// answerFn answers lines. It does not wait for an answer before it takes the next
// line, so the engine's steps are full; it waits for the remaining ones at the end of
// the bundle. Lines that no retry can answer are failures; any other error ends the
// bundle, which the runner retries, perhaps elsewhere. Beam drops the function of a
// bundle that fails, without Teardown, and retries with another one: so a bundle gives
// its worker back when it ends. Only where the source of its lines fails, nothing is
// called any more: then its lines run to their end.
type answerFn struct {
	Settings settings

	worker  *worker         // during a bundle
	ctx     context.Context // of the bundle
	cancel  context.CancelFunc
	waiting []waiting
}

// waiting is a line that the engine works on.
type waiting struct {
	question *question
	line     string
	begun    time.Time
	prompt   int // tokens
	stream   *engine.Stream
	cancel   context.CancelFunc
}

// StartBundle begins a bundle, perhaps after an abandoned one. The first bundle of a
// process opens the worker.
func (f *answerFn) StartBundle(ctx context.Context, _, _ func(string)) (err error) {
	f.abandon()
	if f.worker, err = acquire(ctx, f.Settings); err == nil {
		f.ctx, f.cancel = context.WithCancel(ctx)
	}
	return err
}

// ProcessElement hands a line to the engine.
func (f *answerFn) ProcessElement(ctx context.Context, bytes []byte, answers, failures func(string)) error {
	return f.orAbandon(func() error {
		line := string(bytes)
		q, err := parse(line)
		if err != nil {
			f.fail(ctx, q, line, err, failures)
			return nil
		}
		return f.ask(ctx, q, line, answers, failures)
	})
}

// ask submits a line. As many lines wait as run, so that another one is ready when
// one ends.
func (f *answerFn) ask(ctx context.Context, q *question, line string, answers, failures func(string)) error {
	for len(f.waiting) >= 2*f.Settings.Sequences {
		if err := f.take(ctx, answers, failures); err != nil {
			return err
		}
	}
	r, err := f.worker.request(f.ctx, q)
	for err == nil {
		if err = f.submit(q, line, r); !errors.Is(err, engine.ErrBusy) {
			break
		}
		err = f.yield(ctx, answers, failures)
	}
	return f.settle(ctx, q, line, err, failures)
}

// submit passes a request to the engine.
func (f *answerFn) submit(q *question, line string, r engine.Request) (err error) {
	w := waiting{question: q, line: line, begun: time.Now(), prompt: len(r.Prompt)}
	own := f.ctx
	if w.cancel = func() {}; f.Settings.Timeout > 0 {
		own, w.cancel = context.WithTimeout(f.ctx, f.Settings.Timeout)
	}
	if w.stream, err = f.worker.engine.Submit(own, r); err != nil {
		w.cancel()
		return err
	}
	f.waiting = append(f.waiting, w)
	return nil
}

// settle turns an error caused by the line into a failure; it returns any other error.
func (f *answerFn) settle(ctx context.Context, q *question, line string, err error, failures func(string)) error {
	switch {
	case err == nil:
		return nil
	case f.ctx.Err() != nil: // the bundle was cancelled, whatever the error says
		return fmt.Errorf("line %q: %w", q.ID, f.ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %v", f.Settings.Timeout)
	case !fault(err):
		return fmt.Errorf("line %q: %w", q.ID, err)
	}
	f.fail(ctx, q, line, err, failures)
	return nil
}

// yield waits until there may be room in the engine's queue, which other bundles of
// this process have filled.
func (f *answerFn) yield(ctx context.Context, answers, failures func(string)) error {
	if len(f.waiting) > 0 {
		return f.take(ctx, answers, failures)
	}
	select {
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}

// take waits for the oldest answer.
func (f *answerFn) take(ctx context.Context, answers, failures func(string)) error {
	w := f.waiting[0]
	result, err := w.stream.Result(f.ctx)
	w.cancel()
	f.waiting = f.waiting[1:]
	if err != nil {
		return f.settle(ctx, w.question, w.line, err, failures)
	}
	answers(encode(answer{
		ID: w.question.ID, Text: result.Text, Finish: result.Finish, PromptTokens: w.prompt, GeneratedTokens: len(result.IDs),
	}))
	answered.Inc(ctx, 1)
	promptTokens.Inc(ctx, int64(w.prompt))
	generatedTokens.Inc(ctx, int64(len(result.IDs)))
	milliseconds.Update(ctx, time.Since(w.begun).Milliseconds())
	return nil
}

func (f *answerFn) fail(ctx context.Context, q *question, line string, err error, failures func(string)) {
	failures(encode(newFailure(q, line, err)))
	failed.Inc(ctx, 1)
}

// FinishBundle waits for all answers.
func (f *answerFn) FinishBundle(ctx context.Context, answers, failures func(string)) error {
	defer f.abandon() // a bundle that has succeeded has no lines left, but still has the worker
	for len(f.waiting) > 0 {
		if err := f.take(ctx, answers, failures); err != nil {
			return err
		}
	}
	return nil
}

// Teardown closes the worker, unless other bundles use it.
func (f *answerFn) Teardown() error {
	f.abandon()
	return closeIdle(f.Settings)
}

// orAbandon abandons the bundle if part of it fails, or panics, as Beam's emitters do
// when a later step fails: otherwise its lines would go on beside those of the retry.
func (f *answerFn) orAbandon(part func() error) error {
	done := false
	defer func() {
		if !done {
			f.abandon()
		}
	}()
	err := part()
	done = err == nil
	return err
}

// abandon cancels the lines in progress, and gives the worker back. It does nothing
// between bundles.
func (f *answerFn) abandon() {
	if f.cancel != nil {
		f.cancel()
	}
	for _, w := range f.waiting {
		w.cancel()
	}
	if f.worker != nil {
		f.worker.release()
	}
	f.worker, f.ctx, f.cancel, f.waiting = nil, nil, nil, nil
}
