// Command streams uploads batches, computes with them and reads the results: first
// one after the other on one stream, then on three streams, where the upload of the
// next batch and the read of the last one overlap the work on the current one. At the
// end a stream of the CPU backend takes part: it waits for an event of the device, and
// the device for one of its events.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func main() {
	j := job{}
	flags := cli.NewFlags("streams", "Copies beside computing on three streams, and lets a GPU and the CPU wait for each other.")
	name := flags.String("device", "auto", "`device`: auto, cpu, vulkan, vulkan:INDEX, vulkan:NAME or vulkan:UUID")
	flags.IntVar(&j.batches, "batches", 12, "`number` of batches")
	flags.IntVar(&j.size, "size", 512, "rows and columns of a batch")
	flags.IntVar(&j.products, "products", 4, "`number` of products for each batch: the more there are, the longer work takes beside the copies")
	cli.Main(flags, func(ctx context.Context) error { return run(ctx, os.Stdout, *name, j) })
}

// job is what is done: batches of size x size numbers, each multiplied by the
// same matrix this many times.
type job struct {
	batches, size, products int
	weights                 *kompute.Tensor[float32]
}

// results are the first element of every result, as a sample of it, and the total
// time.
type results struct {
	first   []float32
	elapsed time.Duration
}

// The limits of a job: a batch has at most 1 GiB, and its number, doubled that many times, is an exact float32.
const (
	mostBatches  = 1 << 24
	mostSize     = 1 << 14
	mostProducts = 100
)

// check rejects a job without work, and one beyond the limits.
func (j job) check() error {
	for _, f := range []struct {
		name    string
		n, most int
	}{{"batches", j.batches, mostBatches}, {"size", j.size, mostSize}, {"products", j.products, mostProducts}} {
		switch {
		case f.n < 1:
			return fmt.Errorf("--%s: %d is less than 1", f.name, f.n)
		case f.n > f.most:
			return fmt.Errorf("--%s: %d is more than %d", f.name, f.n, f.most)
		}
	}
	return nil
}

func run(ctx context.Context, out io.Writer, name string, j job) error {
	if err := j.check(); err != nil {
		return err
	}
	device, err := kompute.Open(name)
	if err != nil {
		return err
	}
	defer device.Close()
	w := make([]float32, j.size*j.size)
	for i := range j.size {
		w[i*j.size+i] = 2 // times two, with all the work of a full product
	}
	if j.weights, err = kompute.New(device, w, j.size, j.size); err != nil {
		return err
	}
	defer j.weights.Close()
	var serial, overlapped results
	for range 2 { // pipelines are built and memory is taken the first time
		if serial, err = j.serial(ctx, device); err != nil {
			return err
		}
		if overlapped, err = j.overlapped(ctx, device); err != nil {
			return err
		}
	}
	if err := errors.Join(j.compare(serial), j.compare(overlapped)); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d batches of %d x %d, %d products each\n", device.Info().Name, j.batches, j.size, j.size, j.products)
	fmt.Fprintf(out, "one after the other: %v\n", serial.elapsed.Round(10*time.Microsecond))
	fmt.Fprintf(out, "on three streams:    %v, %.2f times as fast; results agree\n",
		overlapped.elapsed.Round(10*time.Microsecond), float64(serial.elapsed)/float64(overlapped.elapsed))
	return withCPU(ctx, out, device)
}

// batch is the host's data of batch i: i+1 everywhere.
func (j job) batch(i int) []float32 {
	data := make([]float32, j.size*j.size)
	for k := range data {
		data[k] = float32(i + 1)
	}
	return data
}

// work enqueues the computation with a batch.
func (j job) work(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	for range j.products {
		x = ops.MatMul(s, x, j.weights)
	}
	return x
}

// serial finishes each batch before it begins the next.
func (j job) serial(ctx context.Context, device *kompute.Device) (r results, err error) {
	s, err := device.NewStream()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	start := time.Now()
	for i := range j.batches {
		scope := s.Scope()
		x := kompute.Constant(s, j.batch(i), j.size, j.size)
		y, err := j.work(s, x).Read(ctx)
		scope.Close()
		if err != nil {
			return r, err
		}
		r.first = append(r.first, y[0])
	}
	r.elapsed = time.Since(start)
	return r, nil
}

// overlapped uploads on one stream, computes on another and reads on a third. The
// device orders the streams' work on each tensor; the host waits only for the result
// of the batch before the last.
func (j job) overlapped(ctx context.Context, device *kompute.Device) (r results, err error) {
	var streams [3]*kompute.Stream
	for i := range streams {
		if streams[i], err = device.NewStream(); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, streams[i].Close()) }()
	}
	up, work, down := streams[0], streams[1], streams[2]
	start := time.Now()
	var readings []*kompute.Reading[float32]
	for i := range j.batches {
		x, err := kompute.New(device, j.batch(i), j.size, j.size)
		if err != nil {
			return r, err
		}
		up.Upload(x)
		scope := work.Scope()
		err = up.Flush()
		y := j.work(work, x)
		err = errors.Join(err, work.Flush())
		readings = append(readings, y.ReadAsync(down))
		scope.Close() // the work and the read keep what they need
		if err := errors.Join(err, x.Close()); err != nil {
			return r, err
		}
		if i > 0 {
			if err := r.take(ctx, readings[i-1]); err != nil {
				return r, err
			}
		}
	}
	err = r.take(ctx, readings[len(readings)-1])
	r.elapsed = time.Since(start)
	return r, err
}

func (r *results) take(ctx context.Context, reading *kompute.Reading[float32]) error {
	y, err := reading.Wait(ctx)
	if err == nil {
		r.first = append(r.first, y[0])
	}
	return err
}

// compare compares the results with the expected ones: each batch doubled that many
// times.
func (j job) compare(r results) error {
	want := make([]float32, j.batches)
	for i := range want {
		want[i] = float32(math.Ldexp(float64(i+1), j.products))
	}
	if !slices.Equal(r.first, want) {
		return fmt.Errorf("the results are %v, not %v", r.first, want)
	}
	return nil
}

// withCPU makes a stream of the CPU backend and one of the device wait for each
// other, and shows that the caller waits for neither.
func withCPU(ctx context.Context, out io.Writer, device *kompute.Device) (err error) {
	cpu, err := kompute.Open("cpu")
	if err != nil {
		return err
	}
	defer cpu.Close()
	host, err := cpu.NewStream()
	if err != nil {
		return err
	}
	s, err := device.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	enqueued, done := make(chan struct{}), false
	open := sync.OnceFunc(func() { close(enqueued) })
	defer open() // whatever happens, the CPU's stream comes to its end
	host.Enqueue(kompute.Op{Name: "prepare", CPU: func([]kompute.Array, []byte) error { <-enqueued; return nil }})
	s.Wait(host.Record()) // the device waits for the CPU
	x := kompute.Constant(s, []float32{1, 2, 3}, 3)
	reading := ops.Add(s, x, x).ReadAsync(s)
	host.Wait(s.Record()) // the CPU waits for the device
	host.Enqueue(kompute.Op{Name: "note", CPU: func([]kompute.Array, []byte) error { done = reading.Done(); return nil }})
	if reading.Done() {
		return errors.New("the device did not wait for the CPU")
	}
	open() // nothing above has waited, else this would never be reached
	if err := host.Synchronize(ctx); err != nil {
		return err
	}
	sum, err := reading.Wait(ctx)
	if err != nil {
		return err
	}
	if !done || !slices.Equal(sum, []float32{2, 4, 6}) {
		return fmt.Errorf("the CPU waited for the device: %v, sum %v", done, sum)
	}
	_, err = fmt.Fprintf(out, "CPU, device, CPU:    enqueued without a wait, done in order, sum %v\n", sum)
	return err
}
