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

// source returns the source of this generation's tokens. token [1, 1] is the
// one that follows the prompt, chosen on the device but not read yet; it
// belongs to the source, unless there is an error.
//
// Several tokens come from the session's step. It is captured and replayed, if the
// device can, and enqueued op by op otherwise. It is captured here, while the device
// processes the prompt, unless an earlier generation has captured it.
func (g *generation) source(token *kompute.Tensor[uint32]) (source, error) {
	first := g.state.Len()
	if g.limit-g.first == 1 {
		return &eager{generation: g, token: token, at: first}, nil
	}
	c, err := g.decodeStep()
	if err != nil {
		return nil, err
	}
	replays := false
	if !g.options.Eager {
		if replays, err = g.capture(c); err != nil {
			return nil, err
		}
		g.meter.uncaptured = g.uncaptured
	}
	if err := c.begin(g, token); err != nil {
		return nil, err
	}
	if replays {
		return &captured{generation: g, step: c, token: token, first: first}, nil
	}
	return &eager{generation: g, step: c, token: token, at: first}, nil
}

// eager enqueues the ops of each step one by one, when its token is requested.
type eager struct {
	*generation
	step  *step                   // nil if only the token after the prompt is needed
	token *kompute.Tensor[uint32] // [1, 1], the one that follows the prompt
	id    int                     // the last token, to be fed next
	at    int                     // the position at which it is fed
	begun bool                    // the token after the prompt has been read
	done  kompute.Event
}

func (e *eager) next(ctx context.Context) (id int, err error) {
	if !e.begun {
		id, err = e.readToken(ctx, e.token)
	} else {
		id, err = e.run(ctx)
	}
	if err == nil {
		e.id, e.begun = id, true
	}
	return id, err
}

// run enqueues the step and waits for the token that it chooses.
func (e *eager) run(ctx context.Context) (int, error) {
	start := time.Now()
	sc := e.stream.Scope()
	e.step.record(e.stream, e.model, e.state)
	sc.Close()
	if err := e.state.Extend(1); err != nil {
		return 0, err
	}
	e.seen = append(e.seen, e.id)
	e.stream.RecordInto(&e.done)
	e.meter.enqueue += time.Since(start)
	e.meter.idle++
	if err := e.done.Wait(ctx); err != nil {
		return 0, err
	}
	id, err := e.step.chosenAt(e.at)
	e.at++
	return id, err
}

func (e *eager) ahead() error { return nil }

func (e *eager) close() error { return e.token.Close() }

// feed enqueues a pass over tokens and, if they are the last of the prompt, returns the
// token that follows, on the device, [1, 1]. The pass is a replay where it can be.
func (g *generation) feed(ctx context.Context, ids []int, last bool) (*kompute.Tensor[uint32], error) {
	p, err := g.pieceFor(len(ids))
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return g.feedEagerly(ids, last)
	}
	if err := p.run(ctx, g, ids); err != nil || !last {
		return nil, err
	}
	return p.chosen.Reshape(1, 1), nil // the piece keeps the storage
}

// feedEagerly is feed op by op.
func (g *generation) feedEagerly(ids []int, last bool) (next *kompute.Tensor[uint32], err error) {
	tokens, err := g.upload(ids)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tokens.Close()) }()
	sc := g.stream.Scope()
	defer sc.Close()
	pass := model.Pass{Tokens: tokens, State: g.state, Rows: model.NoRows}
	if !last {
		g.model.Forward(g.stream, pass)
		return nil, g.stream.Err()
	}
	pass.Rows = model.LastRow
	next = kompute.Keep(sc, choose(g.stream, g.model.Forward(g.stream, pass), g.applied, g.params, ops.At(0)))
	if err := next.Err(); err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// choose enqueues the choice of the next token from logits [1, 1, V], which it may change,
// as [1, 1]. Without parameters it is the likeliest token.
func choose(st *kompute.Stream, logits *kompute.Tensor[float32], p *penalties, params *kompute.Tensor[uint32], step ops.Position) *kompute.Tensor[uint32] {
	p.apply(st, logits)
	if params == nil {
		return ops.Greedy(st, logits)
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
