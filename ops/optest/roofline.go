package optest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// Measured is one call of an op as [Measure] found it.
type Measured struct {
	Op      string      `json:"op"` // its basename
	Kind    string      `json:"kind,omitempty"`
	DType   array.DType `json:"dtype"`
	Size    int         `json:"size"` // elements asked for
	Rows    int         `json:"rows,omitempty"`
	Shapes  string      `json:"shapes"` // of operands and result
	Kernels []string    `json:"kernels"`
	// Time is the device's for one call by itself, the median of several, from its start to its end; on the CPU
	// backend wall-clock time.
	Time time.Duration `json:"time_ns"`
	// Bytes are those of operands, repeated ones once, and result. What an op reads again does not count.
	Bytes int `json:"bytes"`
	// FLOP are the multiplications and additions of products; 0 for ops that memory limits.
	FLOP float64 `json:"flop,omitempty"`
}

// MeasureOptions say what [Measure] measures.
type MeasureOptions struct {
	Ops   []string // basenames; nil: all
	Sizes []int    // elements of the large operand, about
	// Rows, if any, are the rows of x in products whose case allows it, instead of the case's own.
	Rows []int
	// Each is called with each result as it comes, Skipped with what the device cannot run.
	Each    func(Measured)
	Skipped func(op string, err error)
}

// Ops lists the ops that [Measure] knows.
func Ops() []string {
	var out []string
	for _, u := range suites() {
		out = append(out, u.op)
	}
	return out
}

// TakesRows reports whether [MeasureOptions.Rows] change what is measured of an op.
func TakesRows(op string) bool {
	return slices.ContainsFunc(suites(), func(u suite) bool { return u.op == op && u.withRows != nil })
}

// Measure times the suite's large case of each op, at each size and element type.
func Measure(ctx context.Context, dev *kompute.Device, o MeasureOptions) error {
	for _, name := range o.Ops {
		if !slices.Contains(Ops(), name) {
			return fmt.Errorf("there is no op %q; there are %v", name, Ops())
		}
	}
	for _, u := range suites() {
		if o.Ops != nil && !slices.Contains(o.Ops, u.op) {
			continue
		}
		r := &runner{suite: u, dev: dev}
		for _, c := range r.measuredCases(o) {
			m, err := r.timed(ctx, &c.Case)
			switch {
			case errors.Is(err, kompute.ErrUnsupported), errors.Is(err, kompute.ErrTooLarge):
				o.Skipped(u.op, err)
			case err != nil:
				return fmt.Errorf("%s %s %v of %d elements: %w", u.op, c.kind, c.dtype, c.size, err)
			default:
				m.Op, m.Kind, m.DType, m.Size, m.Rows = u.op, c.kind, c.dtype, c.size, c.rows
				o.Each(m)
			}
		}
	}
	return nil
}

// measuredCase is a case with what it was made from.
type measuredCase struct {
	Case
	kind       string
	dtype      array.DType
	size, rows int
}

// measuredCases makes what to measure of the op. Kinds are those that take different ways through the kernels.
func (r *runner) measuredCases(o MeasureOptions) []measuredCase {
	kinds, rows := r.kinds, []int{0}
	if kinds == nil {
		kinds = []string{""}
	}
	if r.withRows != nil && len(o.Rows) > 0 {
		rows = o.Rows
	}
	var out []measuredCase
	for _, kind := range kinds {
		for _, dtype := range []array.DType{array.Float32, array.BFloat16} {
			for _, size := range o.Sizes {
				for _, n := range rows {
					c := r.large(dtype, kind, size)
					if n > 0 {
						r.withRows(&c, n)
					}
					if c.Params.Kind == "" {
						c.Params.Kind = r.kindOf(kind)
					}
					out = append(out, measuredCase{c, kind, dtype, size, n})
				}
			}
		}
	}
	return out
}

// kindOf returns the Params.Kind of a kind that the suite names: modes of quantization are parameters of their own.
func (r *runner) kindOf(kind string) string {
	if kind == "" || formOf(kind).mode.String() == kind {
		return ""
	}
	return kind
}

// timed replays a case by itself.
func (r *runner) timed(ctx context.Context, c *Case) (m Measured, err error) {
	s, err := r.dev.NewStream()
	if err != nil {
		return m, err
	}
	defer s.Close()
	in := upload(panicking{}, r.dev, c.In)
	defer in.close()
	var out *kompute.View
	region, err := s.Capture(func(s *kompute.Stream) {
		out = result(s, r.run(&call{Case: c, s: s, in: in.views}))
	})
	if err != nil {
		return m, err
	}
	defer region.Close()
	defer out.Close()
	if err := r.warmUp(ctx, s, region); err != nil {
		return m, err
	}
	const times = 7
	p, err := region.Profile(ctx, times)
	if err != nil {
		return m, err
	}
	for _, d := range p.Dispatches {
		m.Kernels = append(m.Kernels, d.Kernel)
	}
	m.Time = p.Replay
	m.Bytes = out.Layout().Size() * out.DType().Size()
	for _, name := range slices.Sorted(maps.Keys(c.In)) {
		a := c.In[name]
		m.Bytes += len(a.Data)
		m.Shapes += fmt.Sprintf("%s %v%v ", name, a.DType, a.Shape)
	}
	m.Shapes += fmt.Sprintf("-> %v%v", out.DType(), out.Layout().Shape)
	if r.flop != nil {
		m.FLOP = r.flop(c)
	}
	return m, nil
}

// warmUp replays the region until it no longer gets faster, so that a GPU has raised its clocks again. They fall within
// the time that uploads and the compilation of a pipeline take, and the next dispatches then run at a fraction of the
// rate, for some tenths of a second.
func (r *runner) warmUp(ctx context.Context, s *kompute.Stream, region *kompute.Region) error {
	const (
		rounds  = 3 // in which it did not get faster
		atMost  = 2 * time.Second
		faster  = 0.98
		perWait = 8 // replays, so that the device does not wait for the host
	)
	if r.dev.Backend() == "cpu" || r.dev.Info().Type == "cpu" {
		return nil
	}
	best, steady, start := time.Duration(math.MaxInt64), 0, time.Now()
	for steady < rounds && time.Since(start) < atMost {
		p, err := region.Profile(ctx, 1) // the first one uploads operands, and makes the recording that is measured
		if err != nil {
			return err
		}
		if float64(p.Replay) < faster*float64(best) {
			best, steady = p.Replay, 0
		} else {
			steady++
		}
		for round := time.Now(); time.Since(round) < 50*time.Millisecond; {
			if err := region.ReplayN(ctx, perWait); err != nil {
				return err
			}
			if err := s.Synchronize(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// panicking lets helpers of tests run outside of a test. What they require cannot fail because of the device, since
// memory is taken only when the op runs.
type panicking struct{}

func (panicking) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (panicking) FailNow() {}
