//go:build cgo && !nogpu

package faulttest

import (
	"errors"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Workloads that involve the host: mapped memory, fallbacks, other devices, large
// transfers.

// held makes work wait for the CPU. If it is refused after that, there is no
// caller to report it to, and the device counts as lost.
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
	s, x, err := j.start()
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
		CPU: func([]array.Array, []byte) error {
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
	s, x, err := j.start()
	if err != nil {
		return err
	}
	m, err := kompute.NewMapped[float32](j.d, size)
	if err != nil {
		return err
	}
	j.result("m", m.Tensor(), ramp(0), ramp(3))
	if err := m.Tensor().Write(j.ctx, ramp(3)); err != nil {
		return err
	}
	y := j.result("y", ops.Add(s, x, m.Tensor()), ramp(4))
	addInto(s, m.Tensor(), y)
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
	s, x, err := j.start()
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

// fallsBackOnParts overwrites the first third of z with twice the first third of y, on the CPU.
func fallsBackOnParts(j *job) error {
	s, x, err := j.start()
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
		CPU: func(a []array.Array, _ []byte) error {
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
// uploads.
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

// checkLarge reads the host's tensors through a fresh stream.
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
