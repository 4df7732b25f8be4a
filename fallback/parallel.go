package fallback

import "github.com/kompute-go/kompute-go/internal/workers"

// parallel calls run for ranges that together are [0, n), at once on several
// goroutines. cost is what one unit takes, in nanoseconds or so: small loops run
// in the calling goroutine.
func parallel(n int, cost float64, run func(lo, hi int)) { workers.For(n, cost, run) }
