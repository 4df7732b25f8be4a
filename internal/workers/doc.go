// Package workers runs loops and schedules of steps on several goroutines that
// stay for a while: a decode step of a language model is a hundred loops of some
// ten microseconds each, so what counts is how soon a worker sees new work.
//
// Nothing ever waits for a worker to come. Each worker has its share of a step,
// and takes it piece by piece; whoever is ready first takes pieces of the others.
// A step ends when all of its pieces are done, not when all workers have come, so
// a thread that the system has taken off its core holds nobody up, unless in the
// middle of a piece.
//
// A worker that waits looks for the next step all the time, and helps with loops
// inside of others' pieces; soon it lets other goroutines run, and then it parks.
// Workers that have nothing to do end after idleTime. There are never more than
// GOMAXPROCS, the caller included, also where that changes.
package workers
