package kompute

import "github.com/kompute-go/kompute-go/internal/opdef"

// describe describes a region of the CPU backend. A dispatch is a loop that the
// workers share.
func (q *cpuQueue) describe(r *Region) (*RegionDescription, error) {
	c := r.cpu
	out := &RegionDescription{
		CapturedOps: r.stats.Ops, Ops: []RegionOp{}, Dispatches: []RegionDispatch{},
		Memory: RegionMemory{
			TransientBytes: r.stats.TransientBytes, TransientBytesUnplanned: r.stats.TransientBytesUnplanned,
			Arenas: []int64{}, Tensors: []RegionTensor{},
		},
	}
	if len(c.memory) > 0 {
		out.Memory.Arenas = []int64{r.stats.TransientBytes}
	}
	tensors := regionTensors{memory: &out.Memory, index: make(map[*storage]int), planned: make(map[*storage]transient)}
	for _, t := range c.memory {
		if t.st != nil {
			tensors.planned[t.st] = t
		}
	}
	for i := range c.calls {
		call := &c.calls[i]
		first := len(out.Dispatches)
		op := RegionOp{Name: call.Name, Pass: call.Pass, FusedFrom: append([]string{}, call.Fused...), Operands: []RegionOperand{}, Dispatches: call.loops()}
		for stage := range call.loops() {
			d := c.dispatches[first+stage]
			out.Dispatches = append(out.Dispatches, RegionDispatch{
				OpIndex: i, Kernel: d.kernel, Grid: [3]uint32{1, 1, 1}, Barrier: d.barrier, Reads: []RegionUse{}, Writes: []RegionUse{},
			})
		}
		for k, st := range call.operands {
			if st == nil {
				continue
			}
			var tensor int // some loop touches every operand
			for stage := range call.loops() {
				if call.touches(stage, k) {
					tensor = tensors.use(st, r, first+stage)
					call.addUse(&out.Dispatches[first+stage], stage, k, tensor)
				}
			}
			op.Operands = append(op.Operands, call.operand(k, tensor))
		}
		if call.scratch >= 0 {
			tensors.addScratch(c.memory[call.scratch], out.Dispatches[first:], first)
		}
		out.Ops = append(out.Ops, op)
	}
	return out, nil
}

// touches reports whether a loop of the call touches an operand.
func (c *cpuCall) touches(stage, operand int) bool {
	return c.stages == nil || c.stages.Touches(stage, operand)
}

// operand describes an operand, a view of that tensor.
func (c *cpuCall) operand(k, tensor int) RegionOperand {
	a := c.Arrays[k]
	return RegionOperand{
		Index: k, Tensor: tensor, Access: Access(c.Access[k]), DType: a.DType,
		Shape: append([]int{}, a.Shape...), Strides: append([]int{}, a.Strides...), Offset: a.Offset,
	}
}

// addUse adds the part of the tensor that an operand covers to what the dispatch of a
// loop reads and writes.
func (c *cpuCall) addUse(d *RegionDispatch, stage, k, tensor int) {
	a := c.Arrays[k]
	lo, hi := a.Extent()
	size := int64(a.DType.Size())
	use := RegionUse{Tensor: tensor, Offset: int64(lo) * size, Bytes: int64(hi-lo) * size}
	owns := c.stages == nil || c.stages.Owns(stage, k)
	if c.Access[k] != opdef.Write || !owns {
		d.Reads = append(d.Reads, use)
	}
	if c.Access[k] != opdef.Read && owns {
		d.Writes = append(d.Writes, use)
	}
}

// regionTensors lists what a region uses, in the order of first use.
type regionTensors struct {
	memory  *RegionMemory
	index   map[*storage]int
	planned map[*storage]transient
}

// use returns the tensor of a storage, which that dispatch uses.
func (t *regionTensors) use(st *storage, r *Region, dispatch int) int {
	k, known := t.index[st]
	if !known {
		k = len(t.memory.Tensors)
		t.index[st] = k
		tensor := RegionTensor{Kind: RegionTensorKept, Bytes: int64(st.bytes), First: dispatch}
		planned, isPlanned := t.planned[st]
		switch {
		case isPlanned:
			tensor.Kind, tensor.Offset = RegionTensorPlanned, int64(planned.offset)
		case st.mapped() != nil:
			tensor.Kind = RegionTensorMapped
		case r.caller(st):
			tensor.Kind = RegionTensorExternal
		}
		t.memory.Tensors = append(t.memory.Tensors, tensor)
	}
	at := &t.memory.Tensors[k]
	at.Last = max(at.Last, dispatch)
	return k
}

// addScratch adds what the loops of a call, of which first is the first, hand on
// to one another.
func (t *regionTensors) addScratch(m transient, loops []RegionDispatch, first int) {
	use := RegionUse{Tensor: len(t.memory.Tensors), Bytes: int64(m.bytes)}
	last := len(loops) - 1
	for i := range loops {
		if i > 0 {
			loops[i].Reads = append(loops[i].Reads, use)
		}
		if i < last {
			loops[i].Writes = append(loops[i].Writes, use)
		}
	}
	t.memory.Tensors = append(t.memory.Tensors, RegionTensor{
		Kind: RegionTensorPlanned, Bytes: int64(m.bytes), First: first, Last: first + last, Offset: int64(m.offset),
	})
}

// caller reports whether the storage is the caller's.
func (r *Region) caller(st *storage) bool {
	for i := range r.uses {
		if r.uses[i].st == st {
			return true
		}
	}
	return false
}
