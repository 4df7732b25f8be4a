// Package workers runs loops, and schedules of steps, on several goroutines that
// stay for a while. A decode step of a language model is a hundred loops of some
// ten microseconds each, so what counts is how soon a worker sees new work.
//
// Nothing ever waits for a worker to arrive. Each worker has a share of a step and
// takes it piece by piece; workers that finish early take pieces from the shares of
// others. A step ends when all of its pieces are done, not when all workers have
// arrived. So a thread that the operating system has taken off its core delays the
// others only if it is in the middle of a piece.
//
// A waiting worker prefetches memory that the next step reads, polls for that step, and
// helps with loops inside the pieces of others. After a short time it lets other
// goroutines run in between, and later it parks. Workers without work end after
// idleTime, so an idle program uses no processor time. The workers and one caller are
// never more than GOMAXPROCS for long, even while GOMAXPROCS changes. Schedules use
// fewer workers while other programs need the processors too (see crowd).
package workers
