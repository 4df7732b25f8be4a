package kompute

import "encoding/json"

// The JSON of a region of the CPU backend: the same form as the native
// library's, where each op is a dispatch of its own.
type (
	cpuText struct {
		OpsAppended             uint64        `json:"ops_appended"`
		OpsRecorded             uint64        `json:"ops_recorded"`
		DispatchCount           uint64        `json:"dispatch_count"`
		BarrierCount            uint64        `json:"barrier_count"`
		TransientBytesUnplanned int64         `json:"transient_bytes_unplanned"`
		TransientBytes          int64         `json:"transient_bytes"`
		Ops                     []cpuOp       `json:"ops"`
		Dispatches              []cpuDispatch `json:"dispatches"`
		Tensors                 []cpuTensor   `json:"tensors"`
	}
	cpuOp struct {
		Op         string   `json:"op"`
		Pass       string   `json:"pass"`
		Fused      []string `json:"fused"`
		Dispatches int      `json:"dispatches"`
	}
	cpuDispatch struct {
		Kernel  string      `json:"kernel"`
		Grid    [3]int      `json:"grid"`
		Barrier bool        `json:"barrier"`
		Reads   []tensorUse `json:"reads"`
		Writes  []tensorUse `json:"writes"`
	}
	cpuTensor struct {
		Kind   string `json:"kind"` // external, kept, planned or mapped
		Bytes  int    `json:"bytes"`
		First  int    `json:"first"`
		Last   int    `json:"last"`
		Arena  int    `json:"arena"`
		Offset int    `json:"offset"`
	}
)

func (q *cpuQueue) describe(r *Region) []byte {
	out := cpuText{
		OpsAppended: r.stats.Ops, OpsRecorded: r.stats.FusedOps, DispatchCount: r.stats.Dispatches,
		TransientBytesUnplanned: r.stats.TransientBytesUnplanned, TransientBytes: r.stats.TransientBytes,
	}
	index := out.addTensors(r.cpu)
	for i, op := range r.cpu.ops {
		d := cpuDispatch{Kernel: op.Name, Grid: [3]int{1, 1, 1}, Barrier: i > 0, Reads: []tensorUse{}, Writes: []tensorUse{}}
		for _, a := range op.Args {
			if a.View == nil {
				continue
			}
			k := index[a.View.st]
			out.Tensors[k].Last = i
			lo, hi := a.View.layout.Extent()
			size := int64(a.View.dtype.Size())
			use := tensorUse{Tensor: int64(k), Offset: int64(lo) * size, Bytes: int64(hi-lo) * size}
			if a.Access&AccessRead != 0 {
				d.Reads = append(d.Reads, use)
			}
			if a.Access&AccessWrite != 0 {
				d.Writes = append(d.Writes, use)
			}
		}
		out.Ops = append(out.Ops, cpuOp{Op: op.Name, Fused: []string{}, Dispatches: 1})
		out.Dispatches = append(out.Dispatches, d)
	}
	text, _ := json.Marshal(out) // plain data: this cannot fail
	return text
}

// addTensors lists what the region uses, in the order of first use.
func (t *cpuText) addTensors(c *cpuRegion) map[*storage]int {
	index := make(map[*storage]int, len(c.uses))
	for _, u := range c.uses {
		index[u.st] = len(t.Tensors)
		kind := "external"
		switch {
		case u.st.mapped:
			kind = "mapped"
		case u.owned:
			kind = "kept"
		}
		t.Tensors = append(t.Tensors, cpuTensor{Kind: kind, Bytes: u.st.bytes, First: u.first})
	}
	for _, m := range c.memory {
		at := &t.Tensors[index[m.st]]
		at.Kind, at.Offset = "planned", m.offset
	}
	return index
}
