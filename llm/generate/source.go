package generate

import (
	"context"
	"errors"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// source computes the tokens of one generation, each from the one before.
type source interface {
	// next waits for the next token; the first is the one that follows the prompt.
	next(ctx context.Context) (int, error)
	// ahead lets the device start on tokens that next has not requested yet, if
	// the source can.
	ahead() error
	// close ends the source. The session then remembers the tokens that were fed.
	close() error
}

// source returns what the tokens of this generation come from. token [1, 1] is
// the one that follows the prompt, chosen on the device but not read yet; it
// belongs to the source, unless there is an error.
//
// Several tokens come from the session's captured step, if the device can have
// one. It is captured here, while the device works on the prompt, unless an
// earlier generation has left one that fits.
func (g *generation) source(token *kompute.Tensor[uint32]) (source, error) {
	one := &eager{generation: g, token: token}
	if g.options.Eager || g.limit == 1 {
		return one, nil
	}
	step, err := g.captureStep(g.options.Sampling.Greedy())
	switch {
	case err != nil:
		return nil, err
	case step == nil: // this device cannot
		return one, nil
	}
	return newCaptured(g, step, token)
}

// eager enqueues the ops of each token one by one, when it is asked for it.
type eager struct {
	*generation
	token *kompute.Tensor[uint32] // [1, 1], the last one chosen
	known bool                    // id is that token
	id    int
}

func (e *eager) next(ctx context.Context) (int, error) {
	if e.known {
		next, err := e.feed(e.token, []int{e.id})
		if err != nil {
			return 0, err
		}
		e.known = false
		if err := e.replace(next); err != nil {
			return 0, err
		}
	}
	id, err := e.readToken(ctx, e.token)
	e.id, e.known = id, err == nil
	return id, err
}

// replace takes over the next token.
func (e *eager) replace(next *kompute.Tensor[uint32]) error {
	old := e.token
	e.token = next
	return old.Close()
}

func (e *eager) ahead() error { return nil }

func (e *eager) close() error { return e.token.Close() }

// feed enqueues a pass over tokens, whose numbers are ids, and the choice of the
// token that follows them, which it returns on the device, [1, 1].
func (g *generation) feed(tokens *kompute.Tensor[uint32], ids []int) (*kompute.Tensor[uint32], error) {
	sc := g.stream.Scope()
	defer sc.Close()
	start := time.Now()
	logits := g.model.Forward(g.stream, model.Pass{Tokens: tokens, State: g.state})
	g.meter.enqueue += time.Since(start)
	g.seen = append(g.seen, ids...)
	next := kompute.Keep(sc, choose(g.stream, logits, g.params, ops.At(len(g.ids))))
	if err := next.Err(); err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// choose enqueues the choice of the next token from logits [1, 1, V], as [1, 1].
// Without parameters it is the likeliest.
func choose(st *kompute.Stream, logits *kompute.Tensor[float32], params *kompute.Tensor[uint32], step ops.Position) *kompute.Tensor[uint32] {
	if params == nil {
		return ops.ArgMax(st, logits, -1)
	}
	return ops.Sample(st, logits, params, step)
}

// readToken waits for a token that was chosen on the device: four bytes.
func (g *generation) readToken(ctx context.Context, token *kompute.Tensor[uint32]) (int, error) {
	g.meter.idle++
	var id [1]uint32
	if err := token.ReadInto(ctx, id[:]); err != nil {
		return 0, err
	}
	return int(id[0]), sample.Check(id[0])
}
