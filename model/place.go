package model

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// place says where the new tokens of a pass go: the host knows, or the device
// does, and then the same work, recorded once, serves every position.
type place struct {
	first int                    // position of the first new token, from the host
	state *kompute.Tensor[int32] // [StateSize], from the device; nil: first holds
}

// StateSize is the length of the device tensor that [NewState] fills.
const StateSize = 5

// NewState returns what a device tensor int32 [StateSize] must hold for a pass
// of n tokens from the given position on: the start of the cache update, whose
// axis 2 is the position, and the number of keys afterwards. Adding n to
// elements 2 and 4 moves it to the next pass of n tokens.
func NewState(position, n int) []int32 {
	return []int32{0, 0, int32(position), 0, int32(position + n)}
}

// position is where RoPE starts to count.
func (p place) position() ops.Position {
	if p.state != nil {
		return ops.AtDevice(p.state.Slice(0, 2, 3))
	}
	return ops.At(p.first)
}

// start is where new keys and values go in a cache [1, Hkv, capacity, D].
func (p place) start() []ops.Position {
	if p.state != nil {
		return []ops.Position{ops.AtDevice(p.state.Slice(0, 0, 4))}
	}
	return []ops.Position{ops.At(0), ops.At(0), ops.At(p.first), ops.At(0)}
}

// keys is the number of keys there are, on the device, or nil.
func (p place) keys() *kompute.Tensor[int32] {
	if p.state == nil {
		return nil
	}
	return p.state.Slice(0, 4, 5)
}
