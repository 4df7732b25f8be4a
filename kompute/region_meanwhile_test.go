package kompute

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// meanwhile calls f at the end of native calls that replay a region, when dev.mu is not held.
type meanwhile struct {
	native
	f func()
}

func (m *meanwhile) replay(stream, region unsafe.Pointer, times int) (uint64, error) {
	defer m.f()
	return m.native.replay(stream, region, times)
}

func (m *meanwhile) startProfile(stream, region unsafe.Pointer, each bool) (uint64, error) {
	defer m.f()
	return m.native.startProfile(stream, region, each)
}

// What happens to a region's tensors while it is being replayed comes after that replay:
// the next one sees it.
func TestReplaysNoticeWhatHappensMeanwhile(t *testing.T) {
	d := vulkanOrSkip(t)
	b := d.backend.(*vulkanBackend)
	calls := map[string]func(r *Region) error{
		"replay":  func(r *Region) error { return r.Replay(bg) },
		"profile": func(r *Region) error { _, err := r.profileRuns(bg, make([][]span, 1)); return err },
	}
	for _, what := range []string{"close", "input", "update"} {
		for name, call := range calls {
			t.Run(what+" during "+name, func(t *testing.T) {
				s, other := newStream(t, d), newStream(t, d)
				closed, err := New(d, upTo(2))
				require.NoError(t, err)
				defer closed.Close()
				made, state, out := tensor(t, d, upTo(2)), tensor(t, d, upTo(2)), tensor(t, d, upTo(2))
				runInto(other, "neg", made, closed)
				r := captureTest(t, s, func(s *Stream) {
					runInto(s, "add", state, state, closed)
					runInto(s, "add", state, state, made)
					s.Enqueue(makeOp("neg", In(made.View()), Out(out.View())))
				})
				replay(t, r)
				before := b.native
				b.native = &meanwhile{before, func() {
					if what == "close" {
						require.NoError(t, closed.Close())
						return
					}
					other.Fail(errTest)
					if what == "update" {
						require.NoError(t, made.Write(bg, upTo(2)))
						runInto(other, "neg", state, closed)
						other.Enqueue(makeOp("neg", In(closed.View()), Out(out.View())))
					}
				}}
				err = call(r)
				b.native = before
				require.NoError(t, err)
				want := errTest
				if what == "close" {
					want = ErrClosed
				}
				for range 2 {
					require.ErrorIs(t, r.Replay(bg), want)
				}
				require.NoError(t, s.Err())
				for name, tensor := range map[string]*Tensor[float32]{"read and written": state, "written": out} {
					_, err = tensor.Read(bg)
					if what == "update" {
						require.ErrorIs(t, err, errTest, "%s: it was to be changed by the other stream", name)
					} else {
						require.NoError(t, err, name)
					}
				}
			})
		}
	}
}
