package fallback

import "github.com/kompute-go/kompute-go/internal/workers"

// parallel calls run for ranges that together are [0, n), concurrently on
// several goroutines. cost is the approximate time of one unit in nanoseconds:
// small loops run in the calling goroutine.
func parallel(n int, cost float64, run func(lo, hi int)) { workers.For(n, cost, run) }
