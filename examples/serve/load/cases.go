package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// testCase is a request with its answer when it runs alone.
type testCase struct {
	request map[string]any
	answer  answer
}

var questions = []string{
	"Hi what is your name", "What is 17 plus 25?", "Tell me a story about a fox.", "你好啊", "What is a tensor?", "Who are you and what can you do for me?",
}

// makeCases makes requests that differ in length, in how tokens are chosen, and in how they begin.
func makeCases(n int) []testCase {
	r := rand.New(rand.NewPCG(1, 2))
	system := "You are a helpful model that answers in short sentences."
	for range 4 {
		system += " " + system
	}
	out := make([]testCase, n)
	for i := range out {
		messages := []map[string]any{{"role": "user", "content": fmt.Sprintf("%s (%d)", questions[r.IntN(len(questions))], r.IntN(10))}}
		if r.IntN(2) == 0 {
			messages = append([]map[string]any{{"role": "system", "content": system[:r.IntN(len(system))]}}, messages...)
		}
		out[i].request = map[string]any{"messages": messages, "max_tokens": 1 + r.IntN(160), "seed": r.IntN(1 << 30)}
		if r.IntN(3) == 0 {
			out[i].request["temperature"] = 0
		} else {
			out[i].request["temperature"] = 0.5 + r.Float64()
		}
		for _, option := range []struct {
			name  string
			value any
		}{
			{"stop", []string{"model", "."}}, {"presence_penalty", 0.5}, {"repetition_penalty", 1.2}, {"min_tokens", 1}, {"logprobs", true},
			{"logit_bias", map[string]float64{fmt.Sprint(r.IntN(200)): 5, fmt.Sprint(200 + r.IntN(200)): -100}},
			{"response_format", map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": schema}}},
		} {
			if r.IntN(5) == 0 {
				out[i].request[option.name] = option.value
			}
		}
	}
	return out
}

// schema is one of answers that take a while.
var schema = map[string]any{
	"type": "object", "additionalProperties": false, "required": []string{"name", "numbers"},
	"properties": map[string]any{
		"name": map[string]any{"type": "string", "maxLength": 40}, "numbers": map[string]any{"type": "array", "items": map[string]any{"type": "integer"}, "maxItems": 10},
	},
}

// alone gets the answer that others are compared with.
func (l *load) alone(ctx context.Context, c *testCase) (err error) {
	c.answer, err = l.ask(ctx, c.request, false, -1)
	return err
}

// counts are the outcomes of requests.
type counts struct {
	plain, streamed, cancelled, refused, wrong, failed atomic.Int64
	mu                                                 sync.Mutex
	reasons                                            []string // the first few
}

func (c *counts) bad(to *atomic.Int64, reason string) {
	to.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.reasons) < 5 {
		c.reasons = append(c.reasons, reason)
	}
}

func (c *counts) print() {
	all := c.plain.Load() + c.streamed.Load() + c.cancelled.Load() + c.refused.Load() + c.wrong.Load() + c.failed.Load()
	fmt.Printf("%d requests: answered plain %d, streamed %d; cancelled %d; refused as busy %d; wrong %d; failed %d\n",
		all, c.plain.Load(), c.streamed.Load(), c.cancelled.Load(), c.refused.Load(), c.wrong.Load(), c.failed.Load())
	for _, reason := range c.reasons {
		fmt.Println(" ", reason)
	}
}

func (c *counts) check(faults bool) error {
	switch {
	case c.wrong.Load() > 0, c.failed.Load() > 0 && !faults:
		return errors.New("some answers were wrong or failed")
	case c.plain.Load() == 0 || c.streamed.Load() == 0:
		return errors.New("nothing was answered")
	}
	return nil
}

// client asks one request after another until ctx ends.
func (l *load) client(ctx context.Context, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for ctx.Err() == nil {
		c := &l.cases[r.IntN(len(l.cases))]
		stream := r.IntN(2) == 0
		// Requests that began before the time was over are finished.
		if r.Float64() < l.cancelled {
			l.goAway(c, r, stream)
			continue
		}
		got, err := l.ask(context.WithoutCancel(ctx), c.request, stream, -1)
		switch {
		case errors.Is(err, errBusy):
			l.counts.refused.Add(1)
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		case err != nil:
			l.counts.bad(&l.counts.failed, err.Error())
		case got != c.answer:
			l.counts.bad(&l.counts.wrong, fmt.Sprintf("%v: %+v, and alone %+v", c.request, got, c.answer))
		case stream:
			l.counts.streamed.Add(1)
		default:
			l.counts.plain.Add(1)
		}
	}
}

// goAway sends a request and disconnects before its end.
func (l *load) goAway(c *testCase, r *rand.Rand, stream bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(1000))*time.Millisecond)
	defer cancel()
	events := -1
	if stream {
		events = r.IntN(40)
	}
	got, err := l.ask(ctx, c.request, stream, events)
	switch {
	case errors.Is(err, errBusy):
		l.counts.refused.Add(1)
	case err != nil && ctx.Err() == nil:
		l.counts.bad(&l.counts.failed, err.Error())
	case !got.begins(c.answer):
		l.counts.bad(&l.counts.wrong, fmt.Sprintf("%v: %+v does not begin %+v", c.request, got, c.answer))
	default:
		l.counts.cancelled.Add(1)
	}
}
