//go:build cgo && !nogpu

package faulttest

import (
	"context"
	"errors"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// left is a tensor that a workload leaves, with what it may hold: its content is
// one of these, or reading it is an error.
type left struct {
	name    string
	tensor  *kompute.Tensor[float32]
	allowed [][]float32
	input   bool // the host made it, so that no failure of work can lose it
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

func (j *job) input(name string, data []float32) (*kompute.Tensor[float32], error) {
	t, err := kompute.New(j.d, data)
	if err == nil {
		j.left = append(j.left, left{name: name, tensor: t, allowed: [][]float32{slices.Clone(data)}, input: true})
	}
	return t, err
}

// result has the tensor checked at the end.
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
		CPU:  func([]array.Array) error { return kompute.ErrUnsupported },
	})
}

// onCPU is an op that no device has a kernel for: it doubles.
func onCPU(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
	out := kompute.Output[float32](s, x.Shape()...)
	s.Enqueue(kompute.Op{
		Name: "faulttest_double", Args: []kompute.Arg{kompute.In(x.View()), kompute.Out(out.View())},
		CPU: func(a []array.Array) error {
			in, out := array.Storage[float32](a[0]), array.Storage[float32](a[1])
			for i := range size {
				out[i] = 2 * in[i]
			}
			return nil
		},
	})
	return out
}

// workload is something a program does with a device. What it returns is the
// first error.
type workload struct {
	name   string
	run    func(j *job) error
	mostly []string // the functions that normal runs make fail; none: all
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
	{name: "large", run: large, mostly: []string{"vkQueueSubmit", "vkMapMemory"}},
}

func eager(j *job) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
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
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
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
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
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
	if err := r.Replay(j.ctx, replays-1); err != nil {
		return err
	}
	j.left[len(j.left)-1].allowed = steps[replays:]
	if _, err := acc.Read(j.ctx); err != nil {
		return err
	}
	return s.Close()
}

func reads(j *job) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
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
	a, err := j.d.NewStream()
	if err != nil {
		return err
	}
	b, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
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

// held has work wait for the CPU. If it is refused when that is done, nobody is
// there to be told, and the device is lost.
func held(j *job) error {
	cpu, err := kompute.Open("cpu")
	if err != nil {
		return err
	}
	defer func() { _ = cpu.Close() }()
	other, err := cpu.NewStream()
	if err != nil {
		return err
	}
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
	if err != nil {
		return err
	}
	far, err := kompute.New(cpu, ramp(1))
	if err != nil {
		return err
	}
	release := make(chan struct{})
	other.Enqueue(kompute.Op{
		Name: "faulttest_wait", Args: []kompute.Arg{kompute.InOut(far.View())},
		CPU: func([]array.Array) error {
			<-release
			return nil
		},
	})
	y := j.result("y", ops.Add(s, x, x), ramp(2))
	s.Wait(other.Record())
	z := j.result("z", ops.Add(s, y, x), ramp(3))
	_ = s.Flush() // a failure poisons the stream
	close(release)
	if _, err := z.Read(j.ctx); err != nil {
		return err
	}
	if err := other.Close(); err != nil {
		return err
	}
	return s.Close()
}

// timed measures ops as they run.
func timed(j *job) error {
	d, err := kompute.Open("vulkan", kompute.WithOpTimes())
	if err != nil {
		return err
	}
	err = eager(&job{ctx: j.ctx, d: d})
	return errors.Join(err, d.Close())
}

func mapped(j *job) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
	if err != nil {
		return err
	}
	m, err := kompute.NewMapped[float32](j.d, size)
	if err != nil {
		return err
	}
	j.result("m", m.Tensor, ramp(0), ramp(3))
	if err := m.Write(j.ctx, ramp(3)); err != nil {
		return err
	}
	y := j.result("y", ops.Add(s, x, m.Tensor), ramp(4))
	addInto(s, m.Tensor, y)
	j.left[len(j.left)-2].allowed = [][]float32{ramp(3), ramp(7)}
	if err := s.Synchronize(j.ctx); err != nil {
		return err
	}
	got := make([]float32, size)
	if err := m.Peek(got, 0); err != nil {
		return err
	}
	if !slices.Equal(got, ramp(7)) {
		return errWrong
	}
	if _, err := y.Read(j.ctx); err != nil {
		return err
	}
	return s.Close()
}

func fallsBack(j *job) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
	if err != nil {
		return err
	}
	y := j.result("y", ops.Add(s, x, x), ramp(2))
	z := j.result("z", onCPU(s, y), ramp(4))
	w := j.result("w", ops.Add(s, z, y), ramp(6))
	if _, err := w.Read(j.ctx); err != nil {
		return err
	}
	return s.Close()
}

// fallsBackOnParts overwrites the first third of z with twice that of y, on the CPU.
func fallsBackOnParts(j *job) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
	if err != nil {
		return err
	}
	const third = size / 3
	before, after := ramp(3), append(ramp(4)[:third], ramp(3)[third:]...)
	y := j.result("y", ops.Add(s, x, x), ramp(2))
	z := j.result("z", ops.Add(s, y, x), before, after)
	if err := s.Synchronize(j.ctx); err != nil {
		return err
	}
	s.Enqueue(kompute.Op{
		Name: "faulttest_double", Args: []kompute.Arg{kompute.In(y.Slice(0, 0, third).View()), kompute.InOut(z.Slice(0, 0, third).View())},
		CPU: func(a []array.Array) error {
			in, out := array.Storage[float32](a[0]), array.Storage[float32](a[1])
			for i := range third {
				out[a[1].Layout.Offset+i] = 2 * in[a[0].Layout.Offset+i]
			}
			return nil
		},
	})
	sum := ramp(1)
	for i := range sum {
		sum[i] += after[i]
	}
	w := j.result("w", ops.Add(s, z, x), sum)
	if _, err := w.Read(j.ctx); err != nil {
		return err
	}
	j.left[len(j.left)-2].allowed = [][]float32{after}
	return s.Close()
}

func profile(j *job) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	x, err := j.input("x", ramp(1))
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

// opens uses a second device from its opening to its end.
func opens(j *job) error {
	d, err := kompute.Open("vulkan")
	if err != nil {
		return err
	}
	second := &job{ctx: j.ctx, d: d}
	err = eager(second)
	return errors.Join(err, d.Close())
}

// large uploads and reads in parts, and fills more than one submission with
// uploads alone.
func large(j *job) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	const n = 5 << 20 // 20 MiB
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i % 1000)
	}
	x, err := kompute.New(j.d, data)
	if err != nil {
		return err
	}
	small, err := j.input("small", ramp(1))
	if err != nil {
		return err
	}
	y := j.result("y", ops.Add(s, small, small), ramp(2))
	z := ops.Add(s, x, x)
	got, err := z.Read(j.ctx)
	if err != nil {
		_ = s.Close()
		return errors.Join(err, checkLarge(j, x, data))
	}
	for i, v := range got {
		if v != 2*data[i] {
			return errWrong
		}
	}
	if _, err := y.Read(j.ctx); err != nil {
		return err
	}
	return errors.Join(s.Close(), z.Close(), x.Close())
}

// checkLarge reads what the host made through a fresh stream.
func checkLarge(j *job, x *kompute.Tensor[float32], data []float32) error {
	s, err := j.d.NewStream()
	if err != nil {
		return err
	}
	got, err := ops.Add(s, x, x).Read(j.ctx)
	if err != nil {
		return err
	}
	for i, v := range got {
		if v != 2*data[i] {
			return errWrong
		}
	}
	return s.Close()
}
