package kompute

import (
	"errors"
	"fmt"
)

// admit checks op before it reaches a backend, and pins its storages: on the
// CPU backend until the op is done, on others until it is appended.
func (s *Stream) admit(op *Op) error {
	s.dev.mu.Lock()
	err := s.pin(op)
	s.dev.mu.Unlock()
	return err
}

// pin checks op, and pins its storages. dev.mu is held.
func (s *Stream) pin(op *Op) error {
	if err := s.state(); err != nil {
		return err
	}
	op.bytes = 0
	for i := range op.Args {
		v := op.Args[i].View
		if v == nil {
			continue
		}
		if err := s.admitArg(op, i); err != nil {
			Op{Args: op.Args[:i]}.unpin()
			return err
		}
		v.st.pins++
		op.bytes += int64(v.size * v.dtype.Size())
	}
	if s.capture == nil {
		s.ops++
		s.rows.count(op)
		s.newWindow()
	}
	return nil
}

// admitArg checks an operand. dev.mu is held.
func (s *Stream) admitArg(op *Op, i int) error {
	a := &op.Args[i]
	err := s.checkArg(a)
	if err == nil {
		err = a.View.usable()
	}
	if err != nil {
		return s.located(*op, fmt.Sprintf("operand %d", i), err)
	}
	st := a.View.st
	if c := st.capture; c != nil && c.s != s {
		return s.located(*op, fmt.Sprintf("operand %d belongs to a region that another stream captures", i), ErrCapture)
	}
	if s.capture != nil {
		return nil // replays check the content
	}
	if err := st.contentErr(); err != nil && !a.overwrites() {
		return err
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
func (s *Stream) checkArg(a *Arg) error {
	v := a.View
	switch {
	case v.st == nil || v.err != nil:
		return v.Err()
	case a.Access < AccessRead || a.Access > AccessReadWrite:
		return ErrInvalid
	case v.st.dev != s.dev:
		return fmt.Errorf("a tensor on %s: %w", v.st.dev.info.Name, ErrDevice)
	case v.st.readOnly && a.Access != AccessRead:
		return fmt.Errorf("wrapped memory is read-only: %w", ErrInvalid)
	}
	return v.inside()
}
