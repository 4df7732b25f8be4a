package optest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// largeSize is about how many elements a large case has: what fills a GPU, and
// less where the CPU does the work.
func largeSize(dev *kompute.Device) int {
	if dev.Backend() == "cpu" || dev.Info().Type == "cpu" {
		return 1 << 18
	}
	return 1 << 24
}

// blank returns zeros, for cases whose time does not depend on values.
func blank(dtype array.DType, shape ...int) array.Array {
	return empty(dtype, must(array.Contiguous(shape...)), size(shape))
}

// measure times the large case for each line that the op has in the report.
func (r *runner) measure(t *testing.T) {
	for _, l := range r.report.Lines() {
		if r.op != l.op() {
			continue
		}
		t.Run(l.DType.String()+l.kind(), func(t *testing.T) {
			c := r.large(l.DType, l.kind(), largeSize(r.dev))
			c.Params.Kind, _, _ = strings.Cut(l.kind(), " ") // a mode is among the case's parameters already
			took, kernels, bytes := r.time(t, &c)
			words := blank(array.Uint32, max(bytes/8, 1))
			copied := Case{In: map[string]array.Array{"x": words}}
			plain := runner{suite: copySuite(), dev: r.dev}
			again, _, _ := plain.time(t, &copied)
			r.report.update(l.Op, l.DType, func(l *Line) { l.Time, l.Kernels, l.Copy = took, kernels, again })
		})
	}
}

// time replays a case by itself and returns the device's time, the kernels, and
// the bytes of operands and result.
func (r *runner) time(t *testing.T, c *Case) (took time.Duration, kernels []string, bytes int) {
	m, err := r.timed(context.Background(), c)
	if errors.Is(err, kompute.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return m.Time, m.Kernels, m.Bytes
}

// result makes a view a result of what is captured.
func result(s *kompute.Stream, v *kompute.View) *kompute.View {
	return byElement(v.DType(), resultOf[float32], resultOf[array.F16], resultOf[array.BF16], resultOf[int32],
		resultOf[uint32], resultOf[bool], resultOf[uint8])(&call{s: s, in: map[string]*kompute.View{"": v}})
}

func resultOf[T kompute.Element](c *call) *kompute.View {
	return kompute.Result(c.s, tensor[T](c, "")).View()
}
