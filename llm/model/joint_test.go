package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// Matrices that are joined are in memory twice for a moment.
func TestJointNeedsRoom(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	l := &Loader[float32]{device: d, room: 64}
	require.True(t, l.canJoin([]int{16, 48}))
	require.False(t, l.canJoin([]int{32, 48}), "more than the room")
	require.False(t, l.canJoin([]int{20, 28}), "not where 16 bytes begin")
	l.most = 48
	require.False(t, l.canJoin([]int{16, 48}), "more than one tensor can have")
	require.True(t, l.canJoin([]int{16, 32}))

	shape := nn.CacheShape{Layers: 2, KVHeads: 2, HeadDim: 64, MaxTokens: 100}
	cache, _ := shape.Bytes(10, kompute.DTypeFloat32)
	got := room(d, 1000, shape, 10, kompute.DTypeFloat32)
	if available := d.Info().MemoryAvailable; available > 0 {
		require.Equal(t, available-1000-cache, got)
	} else {
		require.Equal(t, int64(math.MaxInt64), got)
	}
}
