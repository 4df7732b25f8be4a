package generate

import (
	"context"
	"errors"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
)

// captured replays the session's step, and reads the chosen tokens while further
// replays run. Work of the device past the end of the turn does no harm: it
// writes to unused parts of the state, and tokens that it counts for penalties are forgotten when the
// next run begins.
type captured struct {
	*generation
	step     *step
	token    *kompute.Tensor[uint32] // [1, 1], the one that follows the prompt
	first    int                     // the position at which that token is fed
	given    []int                   // the tokens that next has returned
	issued   int                     // replays enqueued
	batches  [2]batch                // those in flight, oldest first
	inFlight int                     // how many of batches are
	began    time.Time               // when the first was enqueued
	took     time.Duration           // from then until the last token was read
}

// most returns how many replays the rest of the answer takes. Any further ones could be
// past the end of the state.
func (c *captured) most() int { return c.limit - c.generation.first - 1 }

// batch is several replays that were submitted together.
type batch struct {
	done kompute.Event
	end  int // replays up to its end
}

func (c *captured) next(ctx context.Context) (int, error) {
	var id int
	var err error
	if len(c.given) == 0 {
		id, err = c.readToken(ctx, c.token)
	} else {
		id, err = c.wait(ctx)
	}
	if err == nil {
		c.given = append(c.given, id)
	}
	return id, err
}

// ahead keeps two batches in flight, so that the device already has the next one
// when it finishes one, and stays busy until the host notices.
func (c *captured) ahead() error {
	start := time.Now()
	if c.issued == 0 {
		c.began = start
	}
	for c.inFlight < len(c.batches) && c.issued < c.most() {
		times := min(c.batch(), c.most()-c.issued)
		if err := c.step.region.ReplayN(context.Background(), times); err != nil {
			return err
		}
		c.issued += times
		b := &c.batches[c.inFlight]
		c.stream.RecordInto(&b.done)
		b.end = c.issued
		c.inFlight++
	}
	c.meter.enqueue += time.Since(start)
	return nil
}

// The longest delay of text caused by submitting tokens together, and the most
// tokens of one batch.
const (
	mostLate  = 8 * time.Millisecond
	mostBatch = 6
)

// batch returns how many replays to submit together: several if tokens are so
// fast that nobody notices.
func (c *captured) batch() int {
	read := len(c.given) - 1
	if read == 0 {
		return 1
	}
	each := max(c.took/time.Duration(read), 1)
	return int(min(max(mostLate/each, 1), mostBatch))
}

// wait waits for the next token of the replays in flight.
func (c *captured) wait(ctx context.Context) (int, error) {
	if c.inFlight < len(c.batches) && c.issued < c.most() {
		c.meter.idle++
	}
	if err := c.batches[0].done.Wait(ctx); err != nil {
		return 0, err
	}
	read := len(c.given) - 1 // replays whose tokens have been read
	id, err := c.step.chosenAt(c.first + read)
	if err != nil {
		return 0, err
	}
	if read+1 == c.batches[0].end {
		c.batches[0], c.inFlight = c.batches[1], c.inFlight-1
		c.took = time.Since(c.began)
	}
	return id, nil
}

// close records the tokens that replays have fed and whose successors were read.
func (c *captured) close() error {
	err := c.token.Close()
	if len(c.given) == 0 {
		return err
	}
	fed := c.given[:len(c.given)-1]
	c.seen = append(c.seen, fed...)
	return errors.Join(err, c.state.Extend(len(fed)))
}
