package kompute

import "fmt"

// Upload brings tensors to the device, in the order of the stream. Work that
// needs them would do so too; this does it earlier, as when weights are loaded.
// On the CPU backend there is nothing to bring.
//
// A nil or failed tensor poisons the stream, as an op that gets one does.
func (s *Stream) Upload(tensors ...AnyTensor) {
	for i, t := range tensors {
		if t == nil {
			s.Fail(fmt.Errorf("upload: tensor %d is nil: %w", i, ErrInvalid))
			return
		}
	}
	s.Enqueue(uploadOp(tensors))
}
