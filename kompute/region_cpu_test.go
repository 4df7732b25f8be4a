package kompute

import (
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/fallback/fusion"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// program is random work on a few tensors of the caller, some of it in place, with
// transients between.
type program struct {
	steps []programStep
	size  int
}

type programStep struct {
	op      string
	a, b    int // of the tensors so far
	inPlace bool
	half    bool // of the tensor that is updated
}

func drawProgram(r *rapid.T, callers int) program {
	p := program{size: rapid.SampledFrom([]int{2, 40000}).Draw(r, "size")} // alone, or together with neighbours
	for i := range rapid.IntRange(1, 25).Draw(r, "steps") {
		known := callers + i
		p.steps = append(p.steps, programStep{
			op: rapid.SampledFrom([]string{"copy", "neg", "add"}).Draw(r, "op"),
			a:  rapid.IntRange(0, known-1).Draw(r, "a"), b: rapid.IntRange(0, known-1).Draw(r, "b"),
			inPlace: rapid.Bool().Draw(r, "in place"), half: rapid.Bool().Draw(r, "half"),
		})
	}
	return p
}

// run enqueues the program. In place, a caller's tensor or a part of it is updated.
func (p program) run(s *Stream, callers []*Tensor[float32]) {
	tensors := slices.Clone(callers)
	for i, step := range p.steps {
		in := []*Tensor[float32]{tensors[step.a]}
		if step.op == "add" {
			in = append(in, tensors[step.b])
		}
		if !step.inPlace {
			tensors = append(tensors, run(s, step.op, in...))
			continue
		}
		to := callers[i%len(callers)]
		if step.half {
			to = to.Slice(0, 0, p.size/2)
			for k := range in {
				in[k] = in[k].Slice(0, p.size/2, p.size)
			}
		}
		runInto(s, step.op, to, in...)
		tensors = append(tensors, callers[i%len(callers)])
	}
}

// However calls run in parallel, share memory or are merged, a region on the CPU
// gives the results of its ops run one by one, also while the number of threads
// changes.
func TestScheduledRegionsEqualEagerOps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				runtime.GOMAXPROCS(1 + n%5)
			}
		}
	})
	defer changes.Wait()
	defer close(stop)
	d := openTest(t, "cpu")
	s := newStream(t, d)
	rapid.Check(t, func(r *rapid.T) {
		const callers = 3
		p := drawProgram(r, callers)
		times := rapid.IntRange(1, 3).Draw(r, "times")
		var got, want [][]float32
		for _, captured := range []bool{true, false} {
			sc := s.Scope()
			var tensors []*Tensor[float32]
			for i := range callers {
				x := make([]float32, p.size)
				for k := range x {
					x[k] = float32(i + k%7)
				}
				tensors = append(tensors, Constant(s, x, p.size))
			}
			if captured {
				region, err := s.Capture(func(s *Stream) { p.run(s, tensors) })
				require.NoError(r, err)
				require.NoError(r, region.ReplayN(bg, times))
				defer region.Close()
			} else {
				for range times {
					p.run(s, tensors)
				}
			}
			for _, x := range tensors {
				data, err := x.Read(bg)
				require.NoError(r, err)
				if captured {
					got = append(got, data)
				} else {
					want = append(want, data)
				}
			}
			sc.Close()
		}
		for i := range want {
			require.True(r, slices.Equal(want[i], got[i]), "tensor %d", i)
		}
	})
}

// An op that fails ends the replays, and poisons the stream with its name.
func TestRegionWhoseOpFails(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(3))
	calls := 0
	op := makeOp("neg", InOut(x.View()))
	op.CPU = func([]array.Array, []byte) error {
		if calls++; calls == 3 {
			return errTest
		}
		return nil
	}
	r := captureTest(t, s, func(s *Stream) {
		s.Enqueue(op)
		runInto(s, "neg", x, x)
	})
	replayN(t, r, 5)
	err := s.Synchronize(bg)
	require.ErrorIs(t, err, errTest)
	require.ErrorContains(t, err, "unary")
	require.Equal(t, 3, calls)
	require.ErrorIs(t, r.Replay(bg), errTest)
}

// A region runs some ops as loops that look for each operand in its place. An op of
// another form fails the capture; one with operands of the wrong shapes fails there or
// poisons the stream.
func TestMalformedOpsInRegions(t *testing.T) {
	d := openTest(t, "cpu", WithLogger(slog.New(slog.DiscardHandler)))
	for name, form := range loopForms {
		x := tensor(t, d, upTo(4))
		op := Op{Name: name, CPU: func([]array.Array, []byte) error { return errTest }}
		for len(op.Args) < form.operands {
			_, err := newStream(t, d).Capture(func(s *Stream) { s.Enqueue(op) })
			var refused *CaptureError
			require.ErrorAs(t, err, &refused, name)
			require.ErrorIs(t, err, ErrInvalid, name)
			require.Equal(t, name, refused.Op)
			op.Args = append(op.Args, InOut(x.View()))
		}
		op.Params = make([]byte, form.params)
		s := newStream(t, d)
		r, err := s.Capture(func(s *Stream) { s.Enqueue(op) })
		if err == nil {
			require.NoError(t, r.Replay(bg))
			err = s.Synchronize(bg)
			_ = r.Close()
		} else {
			require.ErrorIs(t, err, ErrCapture)
			require.NoError(t, s.Synchronize(bg), "the stream is unchanged")
		}
		require.Error(t, err, name)
		require.Zero(t, x.View().st.pins, name)
	}
}

// Every op that a region runs as loops is checked.
func TestFormsOfLoops(t *testing.T) {
	for _, op := range opdef.Ops {
		if _, found := loopForms[op.Name]; !found {
			require.Nil(t, fallback.StagesOf(op.Name, make([]array.Array, len(op.Operands)), nil), op.Name)
		}
	}
	for _, name := range opdef.FusedOps {
		if !slices.Contains(fusion.NativePasses, name) { // each makes the op of its name
			require.Contains(t, loopForms, name)
		}
	}
}
