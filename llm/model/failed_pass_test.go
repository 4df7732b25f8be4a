package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// A pass whose ops are refused adds no tokens to the state, which then gives the same logits as before on
// another stream.
func TestRefusedPassAddsNothing(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	other, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	foreign, err := kompute.New(other, []uint32{7}, 1, 1)
	require.NoError(t, err)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := model.Load(t.Context(), d, c, model.Options{})
		require.NoError(t, err)
		defer m.Close()
		logits := func(refused bool) []float32 {
			state, err := m.NewState(8)
			require.NoError(t, err)
			defer state.Close()
			if refused {
				s, err := d.NewStream()
				require.NoError(t, err)
				out := m.Forward(s, model.Pass{Tokens: foreign, State: state})
				require.ErrorIs(t, out.Err(), kompute.ErrDevice)
				require.ErrorIs(t, s.Close(), kompute.ErrDevice)
				require.Zero(t, state.Len())
			}
			s, err := d.NewStream()
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			sc := s.Scope()
			defer sc.Close()
			tokens, err := kompute.New(d, []uint32{5, 9}, 1, 2)
			require.NoError(t, err)
			defer tokens.Close()
			got, err := m.Forward(s, model.Pass{Tokens: tokens, State: state}).Read(t.Context())
			require.NoError(t, err)
			return got
		}
		require.Equal(t, logits(false), logits(true))
	})
}
