package simd

import (
	"testing"
	"time"
)

// fastest reports nanoseconds per 1,000 units of work of the fastest run, which
// other work on the machine disturbs least.
func fastest(b *testing.B, work int, run func()) {
	best := time.Duration(1 << 62)
	for b.Loop() {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Nanoseconds())/float64(work)*1000, "ns/1000")
}
