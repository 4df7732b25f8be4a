package model

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// StateSize is the length of the device tensor that [NewState] fills.
const StateSize = 5

// NewState returns what a device tensor int32 [StateSize] must hold for a pass
// of n tokens from the given position on: the start of the cache update, whose
// axis 2 is the position, and the number of keys afterwards. Adding n to
// elements 2 and 4 moves it to the next pass of n tokens.
func NewState(position, n int) []int32 {
	return []int32{0, 0, int32(position), 0, int32(position + n)}
}

// place says where the new tokens of a pass go: the host knows, or the device
// does, and then the same work, recorded once, serves every position.
type place struct {
	first    int                    // position of the first new token, from the host
	onDevice bool                   // the device knows, and first is 0
	position *kompute.Tensor[int32] // [1], where RoPE starts to count
	start    *kompute.Tensor[int32] // [4], where the cache is updated
	keys     *kompute.Tensor[int32] // [1], how many keys there are then; nil from the host
}

// atState returns the place that a device tensor as of [NewState] holds.
func atState(state *kompute.Tensor[int32]) place {
	return place{onDevice: true, start: state.Slice(0, 0, 4), position: state.Slice(0, 2, 3), keys: state.Slice(0, 4, 5)}
}

// close gives the views of the state up.
func (p *place) close() {
	if p.onDevice {
		closeAll(p.position, p.start, p.keys)
	}
}

// ropeOffset is where RoPE starts to count.
func (p *place) ropeOffset() ops.Position {
	if p.onDevice {
		return ops.AtDevice(p.position)
	}
	return ops.At(p.first)
}

// cacheStart is where new keys and values go in a cache [1, Hkv, capacity, D].
func (p *place) cacheStart() []ops.Position {
	if p.onDevice {
		return []ops.Position{ops.AtDevice(p.start)}
	}
	return []ops.Position{ops.At(0), ops.At(0), ops.At(p.first), ops.At(0)}
}

// closeAll closes views whose storage lives on.
func closeAll[E kompute.Element](views ...*kompute.Tensor[E]) {
	for _, v := range views {
		_ = v.Close() // closing a view has nothing that could fail
	}
}
