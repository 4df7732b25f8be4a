package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// An error about the memory of a result names the op.
func TestResultsWithoutMemoryNameTheOp(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec, func(t *testing.T) {
			dev, err := kompute.Open(spec, kompute.WithMemoryBudget(1<<10))
			require.NoError(t, err)
			defer func() { _ = dev.Close() }() // returns the streams' errors
			x, err := kompute.Zeros[float32](dev, 16)
			require.NoError(t, err)
			for want, op := range map[string]func(s *kompute.Stream) *kompute.Tensor[float32]{
				"fill": func(s *kompute.Stream) *kompute.Tensor[float32] { return ops.Fill(s, float32(1), 1000) },
				"add":  func(s *kompute.Stream) *kompute.Tensor[float32] { return ops.Add(s, x, x.Reshape(16, 1)) },
				"tile": func(s *kompute.Stream) *kompute.Tensor[float32] { return ops.Tile(s, x, 1000) },
			} {
				s, err := dev.NewStream()
				require.NoError(t, err)
				sc := s.Scope()
				var failed *kompute.OpError
				require.ErrorAs(t, op(s).Err(), &failed)
				require.ErrorIs(t, failed, kompute.ErrOutOfMemory)
				require.Equal(t, want, failed.Op)
				sc.Close()
			}
		})
	}
}
