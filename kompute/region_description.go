package kompute

import (
	"encoding/json"
	"fmt"
)

// RegionDescription lists a region's work and where its tensors live, in the
// same form on every backend. Text (String), JSON (by the tags), drawings and
// profiles are all made from it.
type RegionDescription struct {
	CapturedOps uint64           `json:"captured_ops"` // op calls, before fusion
	Ops         []RegionOp       `json:"ops"`          // after fusion, in the order in which they run
	Dispatches  []RegionDispatch `json:"dispatches"`   // in the order in which they run
	Memory      RegionMemory     `json:"memory"`
}

// RegionOp is an op of a region, as it runs.
type RegionOp struct {
	Name      string          `json:"name"`       // its basename; "custom" for a dispatch of an Algorithm
	Pass      string          `json:"pass"`       // the fusion pass that made it, or empty
	FusedFrom []string        `json:"fused_from"` // the captured ops that it replaces; none if no pass made it
	Operands  []RegionOperand `json:"operands"`
	// Dispatches is the op's number of dispatches. They are consecutive in
	// RegionDescription.Dispatches, after those of the ops before.
	Dispatches int `json:"dispatches"`
}

// RegionOperand is a view that an op reads or writes.
type RegionOperand struct {
	// Index is the operand's position in the order of csrc/ops/ops.def. Absent
	// operands are left out.
	Index  int    `json:"index"`
	Tensor int    `json:"tensor"` // index into RegionMemory.Tensors; -1 if no dispatch uses it
	Access Access `json:"access"`
	DType  DType  `json:"dtype"`
	// Shape, Strides and Offset count elements. Offset is that of the first element
	// from the start of the tensor's memory.
	Shape   []int `json:"shape"`
	Strides []int `json:"strides"`
	Offset  int   `json:"offset"`
}

// RegionDispatch is one launch of a kernel. On the CPU backend it is a loop that
// the workers share, or an op that runs as a whole, and its grid is [1 1 1].
type RegionDispatch struct {
	OpIndex int       `json:"op"` // index into RegionDescription.Ops
	Kernel  string    `json:"kernel"`
	Grid    [3]uint32 `json:"grid"`    // workgroups along x, y and z
	Barrier bool      `json:"barrier"` // it waits for all dispatches before it
	// Overlaps reports that it may begin before earlier dispatches have ended, and
	// waits for their results by itself (WithOverlap).
	Overlaps bool        `json:"overlaps"`
	Reads    []RegionUse `json:"reads"`
	Writes   []RegionUse `json:"writes"`
}

// RegionUse is the part of a tensor that a dispatch reads or writes: from the
// first to the last byte, gaps included, rounded to what a device can bind.
type RegionUse struct {
	Tensor int   `json:"tensor"` // index into RegionMemory.Tensors
	Offset int64 `json:"offset"` // bytes from the start of the tensor's memory
	Bytes  int64 `json:"bytes"`
}

// RegionMemory is the memory that a region's dispatches use.
type RegionMemory struct {
	// TransientBytes is what the region's own tensors take, and
	// TransientBytesUnplanned what they would take without sharing memory.
	TransientBytes          int64          `json:"transient_bytes"`
	TransientBytesUnplanned int64          `json:"transient_bytes_unplanned"`
	Arenas                  []int64        `json:"arenas"`  // bytes of each block that planned tensors share
	Tensors                 []RegionTensor `json:"tensors"` // in the order of their first use
}

// RegionTensor is the storage of one or more views that a region uses.
type RegionTensor struct {
	Kind  RegionTensorKind `json:"kind"`
	Bytes int64            `json:"bytes"`
	// First and Last are the first and the last dispatch that use it, indices into
	// RegionDescription.Dispatches: the lifetime of a planned tensor.
	First int `json:"first"`
	Last  int `json:"last"`
	// Arena and Offset locate a planned or awaited tensor: index into RegionMemory.Arenas, and bytes from that
	// arena's start. They are 0 for others.
	Arena  int   `json:"arena"`
	Offset int64 `json:"offset"`
}

// RegionTensorKind tells who owns a region's tensor.
type RegionTensorKind string

// The kinds of tensors.
const (
	RegionTensorExternal RegionTensorKind = "external" // the caller's
	RegionTensorKept     RegionTensorKind = "kept"     // the region's, with content that persists between replays
	RegionTensorPlanned  RegionTensorKind = "planned"  // the region's, in memory that it shares with others
	RegionTensorAwaited  RegionTensorKind = "awaited"  // the region's, which dispatches wait for (WithOverlap), in memory of its own
	RegionTensorMapped   RegionTensorKind = "mapped"   // in memory that the host can also access
)

// PhaseCount counts the phases: runs of dispatches without a barrier between them.
func (d *RegionDescription) PhaseCount() int {
	if len(d.Dispatches) == 0 {
		return 0
	}
	return d.Phases()[len(d.Dispatches)-1] + 1
}

// Phases returns the phase of each dispatch, counted from 0.
func (d *RegionDescription) Phases() []int {
	out := make([]int, len(d.Dispatches))
	for i := 1; i < len(out); i++ {
		if out[i] = out[i-1]; d.Dispatches[i].Barrier {
			out[i]++
		}
	}
	return out
}

// Describe returns a description of the region's work, which the caller may
// keep and change. It does not wait. The error is ErrClosed after Close.
func (r *Region) Describe() (*RegionDescription, error) {
	if r = r.made(); r == noRegion {
		return nil, errNilRegion
	}
	d := r.s.dev
	d.mu.Lock()
	if r.closed {
		d.mu.Unlock()
		return nil, errRegionClosed
	}
	r.users++
	d.mu.Unlock()
	out, err := r.s.queue.describe(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	r.leave()
	return out, err
}

// parseDescription parses the native library's description of a region.
func parseDescription(text []byte) (*RegionDescription, error) {
	out := &RegionDescription{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("%w: a region's description: %w", ErrInternal, err)
	}
	for i, d := range out.Dispatches {
		if d.OpIndex < 0 || d.OpIndex >= len(out.Ops) {
			return nil, fmt.Errorf("%w: a region's description: dispatch %d is of op %d of %d", ErrInternal, i, d.OpIndex, len(out.Ops))
		}
	}
	return out, nil
}

// accessNames are the texts of Access, in JSON.
var accessNames = map[Access]string{AccessRead: "read", AccessWrite: "write", AccessReadWrite: "read_write"}

// String returns "read", "write" or "read_write".
func (a Access) String() string {
	if name, known := accessNames[a]; known {
		return name
	}
	return fmt.Sprintf("Access(%d)", uint8(a))
}

// MarshalText is String for encoding/json. The error is ErrInvalid for a value
// other than the constants.
func (a Access) MarshalText() ([]byte, error) {
	name, known := accessNames[a]
	if !known {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, a)
	}
	return []byte(name), nil
}

// UnmarshalText reverses MarshalText. The error is ErrInvalid for other texts.
func (a *Access) UnmarshalText(text []byte) error {
	for access, name := range accessNames {
		if name == string(text) {
			*a = access
			return nil
		}
	}
	return fmt.Errorf("%w: an access of %q", ErrInvalid, text)
}
