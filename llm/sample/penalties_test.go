package sample

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

func TestPenalties(t *testing.T) {
	for _, p := range []Penalties{{}, {Repetition: 1}} {
		require.True(t, p.None())
		require.NoError(t, p.Validate())
		require.Equal(t, [4]float32{1, 1, 0, 0}, p.Encode())
	}
	p := Penalties{Repetition: 1.25, Presence: -0.5, Frequency: 0.125}
	require.False(t, p.None())
	require.NoError(t, p.Validate())
	require.Equal(t, [4]float32{0.8, 1.25, -0.5, 0.125}, p.Encode())
	for _, p := range []Penalties{
		{Repetition: -1}, {Repetition: 1e-31}, {Repetition: math.NaN()}, {Repetition: math.Inf(1)}, {Repetition: 1e39},
		{Presence: math.NaN()}, {Frequency: math.Inf(-1)}, {Presence: 1e39},
	} {
		require.ErrorIs(t, p.Validate(), kompute.ErrInvalid, "%+v", p)
		require.False(t, p.None())
	}
}
