package engine

import (
	"errors"
	"sync"

	"github.com/kompute-go/kompute-go/kompute"
)

// masks are the tokens that may be chosen after the rows of a step, in the form of ops.Mask.
type masks struct {
	device *kompute.Mapped[uint32] // [Sequences, words]
	host   []tokenSet              // the same rows
	full   []bool                  // rows of the device that have all tokens
}

func newMasks(d *kompute.Device, sequences, vocabulary int) (*masks, error) {
	m := &masks{host: make([]tokenSet, sequences), full: make([]bool, sequences)}
	for i := range m.host {
		m.host[i] = newTokenSet(vocabulary)
	}
	var err error
	m.device, err = kompute.NewMapped[uint32](d, sequences, len(m.host[0]))
	return m, err
}

// set writes the rows of a step's pieces, for which all tokens before are known. If it cannot be found
// out which tokens may come next, the piece has the error afterwards.
func (m *masks) set(pieces []piece) error {
	errs := make([]error, len(pieces))
	var wg sync.WaitGroup
	for i := range pieces {
		p := &pieces[i]
		switch {
		case p.chooser != nil || !p.guide.restricts(p.draw):
			for at := p.at; at < p.at+p.chosen; at++ {
				errs[i] = errors.Join(errs[i], m.allowAll(at))
			}
		case p.chosen > 0 && !p.ended.Load():
			wg.Go(func() { errs[i] = m.restrict(p) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// allowAll allows all tokens in a row.
func (m *masks) allowAll(row int) error {
	if m.full[row] {
		return nil
	}
	m.host[row].addAll()
	m.full[row] = true
	return m.poke(row)
}

// restrict allows the tokens that may come next after each of a piece's last rows. What it does after
// a guess that is not allowed does not matter, since that guess will be wrong.
func (m *masks) restrict(p *piece) error {
	g := p.guide
	if len(p.draft) > 0 {
		g = g.clone()
	}
	for j := range p.chosen {
		restricted, err := g.allow(p.generated()+j, m.host[p.at+j])
		if err != nil {
			p.err, p.errAt = err, j
			return nil
		}
		if restricted {
			m.full[p.at+j] = false
			err = m.poke(p.at + j)
		} else {
			err = m.allowAll(p.at + j)
		}
		if err != nil {
			return err
		}
		if j < len(p.draft) {
			g.accept(int(p.draft[j]))
		}
	}
	return nil
}

func (m *masks) poke(row int) error { return m.device.Poke(m.host[row], row*len(m.host[row])) }

func (m *masks) close() error { return m.device.Close() }
