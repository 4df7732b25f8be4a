package ops

import "github.com/kompute-go/kompute-go/kompute"

// Position is a start position: a number known to the host, from At, or one in
// a device tensor, from AtDevice, which ops can advance without the host. The
// zero Position is At(0).
type Position struct {
	host   int
	device *kompute.Tensor[int32]
	set    bool // from AtDevice, also of nil
}

// At returns the position n.
func At(n int) Position { return Position{host: n} }

// AtDevice returns the position, or positions, that t holds when the op runs.
// Each op documents the shapes of t that it accepts.
func AtDevice(t *kompute.Tensor[int32]) Position { return Position{device: t, set: true} }
