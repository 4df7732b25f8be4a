package kompute

import (
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
)

// admit checks op before it reaches a backend, and pins its storages: on the
// CPU backend until the op is done, on others until it is appended.
func (s *Stream) admit(op Op) error {
	for i, a := range op.Args {
		if err := s.checkArg(a); err != nil {
			return s.located(op, fmt.Sprintf("operand %d", i), err)
		}
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if err := s.state(); err != nil {
		return err
	}
	for i, a := range op.Args {
		if a.View == nil {
			continue
		}
		if err := a.View.usable(); err != nil {
			return s.located(op, fmt.Sprintf("operand %d", i), err)
		}
		if c := a.View.st.capture; c != nil && c.s != s {
			return s.located(op, fmt.Sprintf("operand %d belongs to a region that another stream captures", i), ErrCapture)
		}
		if s.capture != nil {
			continue // replays check the content
		}
		if err := a.View.st.contentErr(); err != nil && !a.overwrites() {
			return err
		}
	}
	for _, a := range op.Args {
		if a.View != nil {
			a.View.st.pins++
		}
	}
	if s.capture == nil {
		s.ops++
		s.rows.count(&op)
		s.newWindow()
	}
	return nil
}

// located adds op and operand to an error, unless it names them already.
func (s *Stream) located(op Op, where string, err error) error {
	var known *OpError
	if errors.As(err, &known) {
		return err
	}
	return opError(&op, where, err)
}

// checkArg checks the immutable properties of an operand.
func (s *Stream) checkArg(a Arg) error {
	v := a.View
	switch {
	case v == nil:
		return nil
	case v.Err() != nil:
		return v.Err()
	case a.Access < AccessRead || a.Access > AccessReadWrite:
		return ErrInvalid
	case v.st.dev != s.dev:
		return fmt.Errorf("%s: %w", v.st.dev.info.Name, ErrDevice)
	case v.st.readOnly && a.Access != AccessRead:
		return fmt.Errorf("wrapped memory is read-only: %w", ErrInvalid)
	case v.layout.Rank() > array.MaxRank:
		return fmt.Errorf("rank %d exceeds %d: %w", v.layout.Rank(), array.MaxRank, ErrInvalid)
	}
	if lo, hi := v.layout.Extent(); lo < 0 || hi*v.dtype.Size() > v.st.bytes && hi > lo {
		return fmt.Errorf("elements %d to %d of a storage of %d bytes: %w", lo, hi, v.st.bytes, ErrInvalid)
	}
	return nil
}
