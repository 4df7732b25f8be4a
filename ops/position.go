package ops

import "github.com/kompute-go/kompute-go/kompute"

// Position is where something starts: a number that the host knows, from At, or
// one that lives on the device, from AtDevice, where ops can advance it without
// the host. The zero Position is At(0).
type Position struct {
	host   int
	device *kompute.Tensor[int32]
	set    bool // from AtDevice, also of nil
}

// At returns the position n.
func At(n int) Position { return Position{host: n} }

// AtDevice returns the position, or positions, that t holds when the op runs.
// Each op says which shapes of t it takes.
func AtDevice(t *kompute.Tensor[int32]) Position { return Position{device: t, set: true} }
