package engine

import "github.com/kompute-go/kompute-go/kompute"

// flight is a step from its plan until its tokens are known.
type flight struct {
	pieces       []piece
	rows, chosen int
	onHost       int // of the chosen ones, that the host chooses: the first
	embedded     int // the rows whose states the host wants: the first
	slot         int // which of the steps on their way it is
	step         *step
	done         kompute.Event
	tokens       []uint32
	logits       []float32 // of the rows that the host chooses from
	states       []float32 // of those that it wants
}

const mostFlights = 2

// flights are the steps on their way, the oldest first: while one runs, the next
// one waits behind it on the device.
type flights struct {
	all   [mostFlights]flight
	first int
	n     int // how many are on their way
}

// next returns the one to plan, or nil if all are on their way.
func (f *flights) next() *flight {
	if f.n == len(f.all) {
		return nil
	}
	slot := (f.first + f.n) % len(f.all)
	f.all[slot].slot = slot
	return &f.all[slot]
}

// oldest returns the one that ends next, or nil.
func (f *flights) oldest() *flight {
	if f.n == 0 {
		return nil
	}
	return &f.all[f.first]
}

func (f *flights) started() { f.n++ }

func (f *flights) landed() { f.first, f.n = (f.first+1)%len(f.all), f.n-1 }
