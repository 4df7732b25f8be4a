//go:build cgo && !nogpu

package faulttest

import (
	"context"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// left is a tensor that a workload leaves, with its possible contents: it has
// one of these, or reading it is an error.
type left struct {
	name    string
	tensor  *kompute.Tensor[float32]
	allowed [][]float32
	input   bool // the host made it, so no failure of work can lose it
}

// job is one run of a workload.
type job struct {
	ctx  context.Context
	d    *kompute.Device
	left []left
}

const size = 300 // elements

// ramp is n·factor for n = 0, 1, …
func ramp(factor float32) []float32 {
	out := make([]float32, size)
	for i := range out {
		out[i] = float32(i) * factor
	}
	return out
}

// start begins almost every workload: it makes a stream, and x of 0, 1, …
func (j *job) start() (*kompute.Stream, *kompute.Tensor[float32], error) {
	s, err := j.d.NewStream()
	if err != nil {
		return nil, nil, err
	}
	x, err := j.input("x", ramp(1))
	return s, x, err
}

func (j *job) input(name string, data []float32) (*kompute.Tensor[float32], error) {
	t, err := kompute.New(j.d, data)
	if err == nil {
		j.left = append(j.left, left{name: name, tensor: t, allowed: [][]float32{slices.Clone(data)}, input: true})
	}
	return t, err
}

// result registers the tensor to be checked at the end.
func (j *job) result(name string, t *kompute.Tensor[float32], allowed ...[]float32) *kompute.Tensor[float32] {
	j.left = append(j.left, left{name: name, tensor: t, allowed: allowed})
	return t
}

// addInto adds x to acc in place.
func addInto(s *kompute.Stream, acc, x *kompute.Tensor[float32]) {
	params := make([]byte, 4) // addition
	s.Enqueue(kompute.Op{
		Name: "binary", Params: params,
		Args: []kompute.Arg{kompute.In(x.View()), kompute.In(acc.View()), kompute.Out(acc.View())},
		CPU:  func([]array.Array, []byte) error { return kompute.ErrUnsupported },
	})
}

// onCPU is an op without kernels, which doubles its operand.
func onCPU(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	out := kompute.Output[float32](s, x.Shape()...)
	s.Enqueue(kompute.Op{
		Name: "faulttest_double", Args: []kompute.Arg{kompute.In(x.View()), kompute.Out(out.View())},
		CPU: func(a []array.Array, _ []byte) error {
			in, out := array.Storage[float32](a[0]), array.Storage[float32](a[1])
			for i := range size {
				out[i] = 2 * in[i]
			}
			return nil
		},
	})
	return out
}

// workload is something that a program does with a device. It returns the first
// error.
type workload struct {
	name   string
	run    func(j *job) error
	mostly []string // the functions that normal runs make fail; empty: a share of all
	long   bool     // it takes seconds, so a call between the first and the last fails with one of its results only
}

var workloads = []workload{
	{name: "eager", run: eager},
	{name: "region", run: region},
	{name: "region of many dispatches", run: wideRegion},
	{name: "reads", run: reads},
	{name: "streams", run: streams},
	{name: "event of another device", run: held},
	{name: "timed ops", run: timed},
	{name: "mapped", run: mapped},
	{name: "fallback", run: fallsBack},
	{name: "fallback on parts", run: fallsBackOnParts},
	{name: "profile", run: profile},
	{name: "open and close", run: opens},
	{name: "large", run: large, mostly: []string{"vkMapMemory"}},
	{name: "decode", run: decode, mostly: []string{"vkQueueSubmit"}, long: true},
	{name: "engine", run: serve, mostly: []string{"vkWaitSemaphores"}, long: true},
}

func eager(j *job) error {
	s, x, err := j.start()
	if err != nil {
		return err
	}
	y := j.result("y", ops.Add(s, x, x), ramp(2))
	if err := s.Flush(); err != nil {
		return err
	}
	z := j.result("z", ops.Add(s, y, x), ramp(3))
	if err := z.Write(j.ctx, ramp(7)); err != nil {
		return err
	}
	j.left[len(j.left)-1].allowed = [][]float32{ramp(7)}
	w := j.result("w", ops.Add(s, z, y), ramp(9))
	if _, err := w.Read(j.ctx); err != nil {
		return err
	}
	return s.Close()
}

func region(j *job) error {
	s, x, err := j.start()
	if err != nil {
		return err
	}
	before := j.result("before", ops.Add(s, x, x), ramp(2))
	var y *kompute.Tensor[float32]
	r, err := s.Capture(func(s *kompute.Stream) {
		c := kompute.Constant(s, ramp(4), size)
		y = kompute.Result(s, ops.Add(s, ops.Add(s, x, before), ops.Neg(s, c)))
	})
	j.result("y", y, ramp(-1))
	if err != nil {
		return err
	}
	for range 2 {
		if err := r.Replay(j.ctx); err != nil {
			return err
		}
	}
	if _, err := y.Read(j.ctx); err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	return s.Close()
}

func wideRegion(j *job) error {
	s, x, err := j.start()
	if err != nil {
		return err
	}
	const n, replays = 6, 3
	acc, err := kompute.New(j.d, ramp(0))
	if err != nil {
		return err
	}
	var steps [][]float32
	for i := range replays + 1 {
		steps = append(steps, ramp(float32(i*n)))
	}
	j.result("acc", acc, steps...)
	r, err := s.Capture(func(s *kompute.Stream) {
		for range n {
			addInto(s, acc, x)
		}
	})
	if err != nil {
		return err
	}
	if err := r.Replay(j.ctx); err != nil {
		return err
	}
	if err := r.ReplayN(j.ctx, replays-1); err != nil {
		return err
	}
	j.left[len(j.left)-1].allowed = steps[replays:]
	if _, err := acc.Read(j.ctx); err != nil {
		return err
	}
	return s.Close()
}

func reads(j *job) error {
	s, x, err := j.start()
	if err != nil {
		return err
	}
	y := j.result("y", ops.Add(s, x, x), ramp(2))
	first := y.ReadAsync(s)
	z := j.result("z", ops.Add(s, y, y), ramp(4))
	second := z.ReadAsync(s)
	for i, r := range []*kompute.Reading[float32]{first, second} {
		got, err := r.Wait(j.ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(got, ramp(float32(2*(i+1)))) {
			return errWrong
		}
	}
	part := z.Slice(0, 10, 20)
	got, err := part.Read(j.ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(got, ramp(4)[10:20]) {
		return errWrong
	}
	if err := s.Synchronize(j.ctx); err != nil {
		return err
	}
	if _, err := y.Read(j.ctx); err != nil {
		return err
	}
	return s.Close()
}

func streams(j *job) error {
	a, x, err := j.start()
	if err != nil {
		return err
	}
	b, err := j.d.NewStream()
	if err != nil {
		return err
	}
	y := j.result("y", ops.Add(a, x, x), ramp(2))
	ev := a.Record()
	b.Wait(ev)
	z := j.result("z", ops.Add(b, x, y), ramp(3))
	w := j.result("w", ops.Add(a, z, y), ramp(5))
	if err := ev.Wait(j.ctx); err != nil {
		return err
	}
	if _, err := w.Read(j.ctx); err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return err
	}
	return a.Close()
}

func profile(j *job) error {
	s, x, err := j.start()
	if err != nil {
		return err
	}
	var y *kompute.Tensor[float32]
	r, err := s.Capture(func(s *kompute.Stream) { y = kompute.Result(s, ops.Add(s, x, x)) })
	j.result("y", y, ramp(2))
	if err != nil {
		return err
	}
	if _, err := r.Profile(j.ctx, 1); err != nil {
		return err
	}
	if _, err := y.Read(j.ctx); err != nil {
		return err
	}
	return s.Close()
}
