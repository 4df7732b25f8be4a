package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kompute-go/kompute-go/internal/workers"
)

// scaling is the result for one number of threads of the CPU backend.
type scaling struct {
	Threads int `json:"threads"`
	// MemoryRate is how many bytes per second these threads read from memory if they
	// do nothing else, measured along with the tests.
	MemoryRate float64      `json:"memory_bytes_per_second"`
	Tests      []scalingRow `json:"tests"`
}

// scalingRow is a test with a number of threads.
type scalingRow struct {
	row
	Speedup float64 `json:"speedup"` // over the first number of threads
	// MemoryShare is the share of MemoryRate that reading the weights once for each
	// token takes; only for tokens made one by one.
	MemoryShare float64 `json:"memory_share,omitempty"`
	// Waiting is the share of their time that threads wait for each other in a
	// replayed token.
	Waiting float64 `json:"waiting,omitempty"`
}

// runThreads runs every test with every number of threads.
func (b *bench) runThreads(ctx context.Context) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range b.threads {
		runtime.GOMAXPROCS(n)
		s := &scaling{Threads: n, MemoryRate: memoryRate()}
		err := b.runWith(ctx, s)
		if len(s.Tests) > 0 {
			b.results.Scaling = append(b.results.Scaling, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runWith runs every test with the number of threads that is set.
func (b *bench) runWith(ctx context.Context, s *scaling) error {
	for i, t := range b.tests() {
		b.shown.step(fmt.Sprintf("%s: %s, %s", counted(s.Threads, "thread"), t.Name, t.Mode))
		r, err := b.run(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %s, %s: %w", counted(s.Threads, "thread"), t.Name, t.Mode, err)
		}
		one := scalingRow{row: r, Speedup: 1}
		if len(b.results.Scaling) > 0 {
			one.Speedup = r.Median / b.results.Scaling[0].Tests[i].Median
		}
		if t.Mode != modePrompt {
			one.MemoryShare = r.Median * float64(b.model.Bytes()) / s.MemoryRate
		}
		if t.Mode == modeRegion && b.profile > 0 {
			one.Waiting, err = b.waiting(ctx, t.Depth)
		}
		s.Tests = append(s.Tests, one)
		if err != nil {
			return fmt.Errorf("%s: profile at depth %d: %w", counted(s.Threads, "thread"), t.Depth, err)
		}
	}
	return nil
}

// waiting profiles a token at a depth.
func (b *bench) waiting(ctx context.Context, depth int) (float64, error) {
	p := b.profileAt(depth)
	if err := b.lookAtRegion(ctx, p); err != nil {
		return 0, err
	}
	b.results.Profiles = []*profile{p} // of the last number of threads
	return p.Waiting, nil
}

// blockBytes is the size of the block that memoryRate reads. Tests, which need no true rate, use a smaller one, since
// getting the memory takes seconds on some virtual machines.
var blockBytes = 1 << 30

// memoryRate reads a block that no cache holds, several times, and returns the
// best rate in bytes per second.
func memoryRate() float64 {
	const piece = 1 << 17 // words
	block := make([]uint64, blockBytes/8)
	for i := 0; i < len(block); i += 512 {
		block[i] = uint64(i) // pages that nobody has written are one page of zeros
	}
	var sum atomic.Uint64
	best := time.Duration(1 << 62)
	for range 4 {
		start := time.Now()
		workers.For(len(block)/piece, 1e5, func(lo, hi int) { sum.Add(addUp(block[lo*piece : hi*piece])) })
		best = min(best, time.Since(start))
	}
	return float64(8*len(block)) / best.Seconds()
}

// addUp adds words of a slice whose length is a multiple of 8.
func addUp(x []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(x) >= 8; x = x[8:] {
		a += x[0] + x[4]
		b += x[1] + x[5]
		c += x[2] + x[6]
		d += x[3] + x[7]
	}
	return a + b + c + d
}

func printScaling(w io.Writer, all []*scaling) error {
	t := table(w)
	fmt.Fprintln(t, "threads\ttest\tmode\ttokens/s\tlow\thigh\tspeedup\tmemory GB/s\tof it\twaiting\t")
	for _, s := range all {
		for _, r := range s.Tests {
			fmt.Fprintf(t, "%d\t%s\t%s\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f\t%s\t%s\t\n", s.Threads, r.Name, r.Mode, r.Median, r.Low, r.High,
				r.Speedup, s.MemoryRate/1e9, percent(r.MemoryShare), percent(r.Waiting))
		}
	}
	return t.Flush()
}
