package kompute

import (
	"maps"
	"time"
)

// DeviceStats counts what a device holds and has done since it was opened.
type DeviceStats struct {
	LiveTensors    int    // storages that were not closed; views do not count
	LiveBytes      int64  // of them
	PeakBytes      int64  // the maximum of LiveBytes so far
	ReservedBytes  int64  // allocated from the driver
	HostBytes      int64  // of host copies of Vulkan tensors, wrapped memory not counted
	Allocations    uint64 // so far: device memory, staging, and pools of commands and descriptors
	PipelinesBuilt uint64
	// KernelCalls counts submitted dispatches by kernel variant ("softmax.narrow_subgroup"); replays of
	// a region count each time.
	KernelCalls map[string]uint64
	// RefusedKernels are the variants that the driver did not accept, with its error. The next best
	// variants, or other kernels, do their work.
	RefusedKernels map[string]string
	// Overlap reports whether dispatches of a region may overlap: see WithOverlap.
	Overlap bool
	// BatchVariant reports whether WithoutBatchInvariance was asked for and works on this device.
	BatchVariant bool
	// InvariantRows is the most rows of x among which each row of a product with transposed affine
	// or mxfp4 weights has the same bits as alone, on Vulkan in regions; math.MaxInt: any number.
	InvariantRows int
	// Hang names the work that did not end, if the device counts as lost because of it: see WithHangLimit.
	Hang               string
	ValidationMessages uint64 // with KOMPUTE_GO_VALIDATION=1
	Uploads            uint64
	UploadBytes        uint64
	Downloads          uint64
	DownloadBytes      uint64
	// CacheHits counts operands whose content was already where it was needed,
	// CacheMisses those that had to be copied.
	CacheHits, CacheMisses uint64
	// The following fields are sums of StreamStats over all streams so far.
	Waits         uint64
	OpTimes       map[string]OpTime
	CallsByRows   map[string]RowCalls
	Fallbacks     map[string]map[string]int
	FallbackMoves map[string]FallbackMoves
}

// add adds a stream's counters.
func (out *DeviceStats) add(s StreamStats) {
	out.Waits += s.Waits
	out.OpTimes = addOpTimes(out.OpTimes, s.OpTimes)
	for op, reasons := range s.Fallbacks {
		for reason, n := range reasons {
			out.Fallbacks = addFallbacks(out.Fallbacks, op, reason, n)
		}
	}
	for op, m := range s.FallbackMoves {
		out.FallbackMoves = addFallbackMoves(out.FallbackMoves, op, m)
	}
	for op, n := range s.CallsByRows {
		out.CallsByRows = addRowCalls(out.CallsByRows, op, n)
	}
}

// StreamStats counts what a stream has done since it was made.
type StreamStats struct {
	Ops              uint64 // enqueued, including those that ran on the CPU
	RepeatedOps      uint64 // of these, those for which an earlier window's recording served again
	Dispatches       uint64
	Barriers         uint64
	Submits          uint64
	DescriptorWrites uint64
	RecordedCommands uint64
	Uploads          uint64
	UploadBytes      uint64
	Downloads        uint64 // of what the stream wrote
	DownloadBytes    uint64
	Waits            uint64 // Synchronize
	Replays          uint64 // of regions: what they run counts as Dispatches and Barriers
	RecordTime       time.Duration
	SubmitTime       time.Duration
	// OpTimes is the time by op; on the device, only of work that is done: see StartTiming.
	// Copies between host and device count as "transfer", an Algorithm as "custom".
	OpTimes map[string]OpTime
	// Fallbacks counts ops of a Vulkan device that ran on the CPU, by op and
	// reason.
	Fallbacks map[string]map[string]int
	// FallbackMoves is the cost of those ops besides their own work, by op. Its copies count in
	// Downloads and Uploads as well.
	FallbackMoves map[string]FallbackMoves
	// CallsByRows counts products by how many rows they multiply, by op as it was enqueued or
	// captured: each replay of a region counts.
	CallsByRows map[string]RowCalls
}

// FallbackMoves counts what CPU fallbacks caused: waits for pending work, downloaded operands, and
// results written back.
type FallbackMoves struct {
	Waits, Downloads, DownloadBytes, Uploads, UploadBytes uint64
	WaitTime                                              time.Duration // the host's, in Waits
}

// addFallbackMoves adds an op's moves to sums, which may be nil.
func addFallbackMoves(sums map[string]FallbackMoves, op string, m FallbackMoves) map[string]FallbackMoves {
	if sums == nil {
		sums = make(map[string]FallbackMoves)
	}
	sum := sums[op]
	sum.Waits += m.Waits
	sum.WaitTime += m.WaitTime
	sum.Downloads += m.Downloads
	sum.DownloadBytes += m.DownloadBytes
	sum.Uploads += m.Uploads
	sum.UploadBytes += m.UploadBytes
	sums[op] = sum
	return sums
}

// Stats returns the device's counters.
func (d *Device) Stats() DeviceStats {
	d = d.made()
	d.mu.Lock()
	defer d.mu.Unlock()
	out := DeviceStats{
		LiveTensors: d.live, LiveBytes: d.liveBytes, PeakBytes: d.peakBytes,
		Downloads: d.transfers.downloads, DownloadBytes: d.transfers.downloadBytes,
	}
	out.add(StreamStats{
		Waits: d.past.Waits, OpTimes: d.past.OpTimes, CallsByRows: d.past.CallsByRows,
		Fallbacks: d.past.Fallbacks, FallbackMoves: d.past.FallbackMoves,
	})
	for s := range d.streams {
		if !s.counted { // the others are in d.past
			out.add(s.stats())
		}
	}
	if !d.closed.Load() {
		d.backend.stats(&out)
	}
	return out
}

// Stats returns the stream's counters. Those of the native library are zero
// once the stream is closed.
func (s *Stream) Stats() StreamStats {
	s = s.made()
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return s.stats()
}

// stats is Stats with dev.mu held.
func (s *Stream) stats() StreamStats {
	out := StreamStats{
		Ops: s.ops, Waits: s.waits, Replays: s.replays,
		Downloads: s.transfers.downloads, DownloadBytes: s.transfers.downloadBytes,
		Fallbacks: make(map[string]map[string]int, len(s.fallbacks)), FallbackMoves: maps.Clone(s.fallbackMoves),
		CallsByRows: s.rows.addTo(nil),
	}
	for op, reasons := range s.fallbacks {
		out.Fallbacks[op] = maps.Clone(reasons)
	}
	s.queue.stats(&out)
	s.addHostTimes(&out)
	return out
}

// countFallback counts an op that ran on the CPU. dev.mu is held.
func (s *Stream) countFallback(op, reason string) {
	s.fallbacks = addFallbacks(s.fallbacks, op, reason, 1)
}

// addFallbacks counts n more fallbacks of an op for a reason.
func addFallbacks(counts map[string]map[string]int, op, reason string, n int) map[string]map[string]int {
	if counts == nil {
		counts = make(map[string]map[string]int)
	}
	if counts[op] == nil {
		counts[op] = make(map[string]int)
	}
	counts[op][reason] += n
	return counts
}

// downloaded counts a read of a tensor that s (may be nil) made. dev.mu is
// held.
func (d *Device) downloaded(s *Stream, bytes int) {
	d.transfers.add(bytes)
	if s != nil {
		s.transfers.add(bytes)
	}
}

func (c *transferCounts) add(bytes int) {
	c.downloads++
	c.downloadBytes += uint64(bytes)
}
