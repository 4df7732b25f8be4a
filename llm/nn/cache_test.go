package nn

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// A capacity is at most MaxTokens, for any number of tokens.
func TestCapacity(t *testing.T) {
	c := CacheShape{Layers: 1, KVHeads: 1, HeadDim: 4, MaxTokens: 1000}
	for n, want := range map[int]int{1: 256, 256: 256, 257: 512, 1000: 1000, 1001: 1000, math.MaxInt - 200: 1000, math.MaxInt: 1000} {
		require.Equal(t, want, c.Capacity(n), n)
	}
	all, one := c.Bytes(math.MaxInt, array.Float32)
	require.Equal(t, int64(32000), all)
	require.Equal(t, int64(16000), one)
}

func TestExtend(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	c, err := NewKVCache[float32](d, CacheShape{Layers: 1, KVHeads: 1, HeadDim: 4, MaxTokens: 20}, 10)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, 20, c.Capacity())
	require.NoError(t, c.Extend(0))
	require.NoError(t, c.Extend(15))
	require.Equal(t, 15, c.Len())
	require.ErrorIs(t, c.Extend(6), ErrCache)
	require.ErrorIs(t, c.Extend(-1), ErrCache)
	require.NoError(t, c.Extend(5))
	require.Equal(t, 20, c.Len())
}

// A cache that cannot grow, because its stream has failed, keeps what it has.
func TestReserveOnFailedStream(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	c, err := NewKVCache[float32](d, CacheShape{Layers: 1, KVHeads: 1, HeadDim: 4, MaxTokens: 1000}, 10)
	require.NoError(t, err)
	require.NoError(t, c.Extend(5))
	s, err := d.NewStream()
	require.NoError(t, err)
	failure := errors.New("failed")
	s.Fail(failure)
	require.ErrorIs(t, c.Reserve(s, 500), failure)
	require.Error(t, s.Close())

	require.Equal(t, 256, c.Capacity())
	s, err = d.NewStream()
	require.NoError(t, err)
	require.NoError(t, c.Reserve(s, 500), "its tensors are open")
	require.Equal(t, 512, c.Capacity())
	require.Equal(t, 5, c.Len())
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
	require.Zero(t, d.Stats().LiveTensors)
}

// A cache that is nil or closed holds no tokens and accepts none.
func TestNilAndClosedCache(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	closed, err := NewKVCache[float32](d, CacheShape{Layers: 1, KVHeads: 1, HeadDim: 4, MaxTokens: 20}, 10)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, c := range []*KVCache[float32]{nil, closed} {
		require.ErrorIs(t, c.Room(0), ErrCache)
		require.ErrorIs(t, c.Extend(0), ErrCache)
		require.ErrorIs(t, c.Reserve(nil, 1), ErrCache)
		require.ErrorIs(t, c.Truncate(1), ErrCache)
		require.Zero(t, c.Len())
		require.NoError(t, c.Close())
	}
	var cursor *Cursor
	require.NoError(t, cursor.Close())
}
