package generate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// replays reports whether this generation replays the session's loop.
func (r *run) replays() bool {
	return r.loop != nil && !r.options.Eager && r.options.MaxTokens > 1
}

// flight is what the device has been told to do ahead of the host.
type flight struct {
	run     *run
	first   int           // position of the first token to be fed
	limit   int           // the most replays
	issued  int           // replays enqueued
	batches [2]batch      // those in flight, oldest first
	n       int           // how many of them
	began   time.Time     // when the first was enqueued
	took    time.Duration // from then until the last token that was read
	read    int           // replays whose tokens were read
}

// batch is several replays that were submitted together.
type batch struct {
	done kompute.Event
	end  int // replays up to its end
}

// replay lets the loop run, and reads what it chooses while it goes on. What the
// device does past the end of the turn is of no consequence: it writes where
// the cache holds nothing.
func (r *run) replay(ctx context.Context) error {
	known := len(r.result.IDs)
	f := &flight{run: r, first: r.cache.Len(), began: time.Now()}
	f.limit = min(r.options.MaxTokens-known, min(r.cache.Capacity(), r.model.Config().MaxPositions)-f.first)
	err := f.fly(ctx)
	fed := r.result.IDs[known-1 : len(r.result.IDs)-1]
	r.seen = append(r.seen, fed...)
	return errors.Join(err, r.cache.Extend(len(fed)))
}

// fly reads token after token until something ends the generation.
func (f *flight) fly(ctx context.Context) error {
	r := f.run
	for {
		id := r.result.IDs[len(r.result.IDs)-1]
		if slices.Contains(r.options.EOS, id) {
			r.result.Finish = FinishStop
			return nil
		}
		if err := ctx.Err(); err != nil && f.read < f.limit {
			return errors.Join(r.emit(r.text.Push(id)), err)
		}
		if err := f.fill(); err != nil {
			return err
		}
		if err := r.emit(r.text.Push(id)); err != nil {
			return err
		}
		if f.read == f.limit {
			r.result.Finish = FinishLength
			return nil
		}
		if err := f.next(ctx); err != nil {
			return err
		}
	}
}

// fill keeps two batches in flight, so that the device has the next one when it
// ends one, and stays busy while the host learns of that.
func (f *flight) fill() error {
	start := time.Now()
	for f.n < len(f.batches) && f.issued < f.limit {
		times := min(f.batch(), f.limit-f.issued)
		if err := f.run.loop.region.Replay(context.Background(), times); err != nil {
			return err
		}
		f.issued += times
		b := &f.batches[f.n]
		f.run.stream.RecordInto(&b.done)
		b.end = f.issued
		f.n++
	}
	f.run.enqueue += time.Since(start)
	return nil
}

// The longest that text may be late because tokens were submitted together, and
// the most tokens that are.
const (
	mostLate  = 8 * time.Millisecond
	mostBatch = 4
)

// batch returns how many replays to submit together: several where tokens are
// so quick that nobody sees them come together.
func (f *flight) batch() int {
	if f.read == 0 {
		return 1
	}
	each := max(f.took/time.Duration(f.read), 1)
	return int(min(max(mostLate/each, 1), mostBatch))
}

// next waits for the next token and notes it.
func (f *flight) next(ctx context.Context) error {
	r := f.run
	if f.n < 2 && f.issued < f.limit {
		r.idle++
	}
	if err := f.batches[0].done.Wait(ctx); err != nil {
		return err
	}
	var id [1]uint32
	if err := r.loop.chosen.Peek(id[:], f.first+f.read); err != nil {
		return err
	}
	if err := sample.Check(id[0]); err != nil {
		return err
	}
	r.result.IDs = append(r.result.IDs, int(id[0]))
	if f.read++; f.read == f.batches[0].end {
		f.batches[0], f.n = f.batches[1], f.n-1
		f.took = time.Since(f.began)
	}
	return nil
}
