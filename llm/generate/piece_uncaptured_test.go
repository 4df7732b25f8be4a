package generate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// noPieces is a model whose passes over pieces fail, as often as it says.
type noPieces struct {
	model.Model
	err   error
	times int // below 0: always
}

func (m *noPieces) Forward(s *kompute.Stream, p model.Pass) *kompute.Tensor[float32] {
	if p.Piece != nil && m.times != 0 {
		m.times--
		return kompute.Failed[float32](s, m.err)
	}
	return m.Model.Forward(s, p)
}

// Without memory for a region, a prompt is computed op by op; other errors are reported,
// and nothing of the region is kept.
func TestPieceThatCannotBeCaptured(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := f.Load(t.Context(), d, model.Options{})
		require.NoError(t, err)
		for _, cause := range []error{kompute.ErrOutOfMemory, kompute.ErrShape} {
			s, err := NewSession(&noPieces{m, cause, -1}, f.Tokenizer, 1)
			require.NoError(t, err)
			for use := range 4 {
				forget(t, s)
				r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 4})
				if use > 0 && cause == kompute.ErrShape {
					require.ErrorIs(t, err, cause)
					require.Zero(t, s.state.Len())
				} else {
					require.NoError(t, err)
					require.Equal(t, cases[0].GeneratedIDs[:4], r.IDs)
				}
				require.Empty(t, capturedRows(s))
			}
			require.NoError(t, s.Close())
		}
		require.NoError(t, m.Close())
	})
}

// A region that there is no memory for takes the place of those that were captured before.
func TestPieceTakesThePlaceOfOthers(t *testing.T) {
	f := openDemo(t)
	long := longPrompt(t, f, 64)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := f.Load(t.Context(), d, model.Options{})
		require.NoError(t, err)
		failing := &noPieces{m, kompute.ErrOutOfMemory, 0}
		s, err := NewSession(failing, f.Tokenizer, 1)
		require.NoError(t, err)
		for _, n := range []int{20, 20, 60, 60} {
			forget(t, s)
			if n == 60 && s.pieces[pieceSize{pieceRows(d, n, DefaultPrefillStep(d)), false, nil}] != nil {
				failing.times = 1
			}
			_, err := s.Generate(t.Context(), long[:n], Options{MaxTokens: 1})
			require.NoError(t, err)
		}
		require.Zero(t, failing.times, "it has failed once")
		require.Equal(t, map[int]bool{pieceRows(d, 60, DefaultPrefillStep(d)): true}, capturedRows(s))
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
	})
}
