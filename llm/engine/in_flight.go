package engine

import "github.com/kompute-go/kompute-go/kompute"

// pendingStep is a step from the moment it is planned until its tokens are known.
type pendingStep struct {
	pieces       []piece
	rows, chosen int
	onHost       int // how many of the chosen tokens, the first ones, the host needs the logits for
	embedded     int // how many rows, the first ones, have states that the host needs
	slot         int // its index among the steps in flight
	step         *step
	unchosen     bool // the choice of its tokens is not enqueued yet
	done         kompute.Event
	tokens       []uint32
	states       []float32 // the rows that the host needs
}

const maxInFlight = 2

// pendingSteps are the steps in flight, oldest first: while one runs, the next one
// is already waiting on the device.
type pendingSteps struct {
	all   [maxInFlight]pendingStep
	first int
	n     int // how many are in flight
}

// next returns the step to plan, or nil if all are in flight.
func (p *pendingSteps) next() *pendingStep {
	if p.n == len(p.all) {
		return nil
	}
	slot := (p.first + p.n) % len(p.all)
	p.all[slot].slot = slot
	return &p.all[slot]
}

// oldest returns the step that ends next, or nil.
func (p *pendingSteps) oldest() *pendingStep {
	if p.n == 0 {
		return nil
	}
	return &p.all[p.first]
}

// sequences returns those that the steps in flight feed, each once.
func (p *pendingSteps) sequences() map[*sequence]bool {
	out := map[*sequence]bool{}
	for i := range p.n {
		for _, piece := range p.all[(p.first+i)%len(p.all)].pieces {
			out[piece.sequence] = true
		}
	}
	return out
}

func (p *pendingSteps) started() { p.n++ }

func (p *pendingSteps) finished() { p.first, p.n = (p.first+1)%len(p.all), p.n-1 }
