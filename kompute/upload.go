package kompute

import "fmt"

// Upload copies tensors to the device, in the order of the stream. Work that
// needs them does so anyway; this does it earlier, for example when weights are
// loaded.
//
// On the CPU backend it copies only tensors made by Wrap, into memory of huge pages, in which
// products with weights are faster; the caller's memory is not read any more then, but must still
// be valid. It does so on Linux, where transparent huge pages are on, as long as copies take at most
// half of the memory that is available without them.
//
// A nil or failed tensor poisons the stream, as it does in an op.
func (s *Stream) Upload(tensors ...AnyTensor) {
	s = s.made()
	for i, t := range tensors {
		if t == nil || t.View() == nil {
			s.Fail(fmt.Errorf("upload: tensor %d is nil: %w", i, ErrInvalid))
			return
		}
	}
	op := Op{Name: "upload"}
	for _, t := range tensors {
		op.Args = append(op.Args, In(t.View()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.upload(op); err != nil {
		s.refuse(op, err)
	}
}

// upload copies the operands of op to the device. s.mu is held.
func (s *Stream) upload(op Op) error {
	if err := s.admit(&op); err != nil {
		return err
	}
	defer func() {
		s.dev.mu.Lock()
		defer s.dev.mu.Unlock()
		op.unpin()
	}()
	for _, a := range op.Args {
		if err := s.queue.upload(a.View.st); err != nil {
			return s.located(op, "", err)
		}
	}
	return nil
}
