package kompute

import "fmt"

// Methods replace a nil or zero Stream, Device, Region or View by one that was
// closed from the start (see made), so that every method returns an error and
// none needs a check of its own.

var (
	errNilStream = fmt.Errorf("the stream is nil, or NewStream did not make it: %w", ErrInvalid)
	errNilDevice = fmt.Errorf("the device is nil, or Open did not open it: %w", ErrInvalid)
	errNilRegion = fmt.Errorf("the region is nil, or Capture did not make it: %w", ErrInvalid)
)

var (
	noDevice = func() *Device {
		d := newDevice(DeviceInfo{}, options{})
		d.backend = cpuBackend{}
		d.closed.Store(true)
		return d
	}()
	noStream = func() *Stream {
		s := &Stream{dev: noDevice, closed: true, err: errNilStream}
		s.queue = &cpuQueue{s: s}
		return s
	}()
	noRegion = &Region{s: noStream, closed: true}
)

func (d *Device) made() *Device {
	if d == nil || d.backend == nil {
		return noDevice
	}
	return d
}

func (s *Stream) made() *Stream {
	if s == nil || s.dev == nil {
		return noStream
	}
	return s
}

func (r *Region) made() *Region {
	if r == nil || r.s == nil {
		return noRegion
	}
	return r
}

func (v *View) made() *View {
	if v == nil {
		return &View{}
	}
	return v
}
