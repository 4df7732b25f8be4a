package kompute

// describe describes a region of the CPU backend. Each op is one dispatch,
// which waits for the one before.
func (q *cpuQueue) describe(r *Region) (*RegionDescription, error) {
	out := &RegionDescription{
		CapturedOps: r.stats.Ops, Ops: []RegionOp{}, Dispatches: []RegionDispatch{},
		Memory: RegionMemory{
			TransientBytes: r.stats.TransientBytes, TransientBytesUnplanned: r.stats.TransientBytesUnplanned,
			Arenas: []int64{}, Tensors: []RegionTensor{},
		},
	}
	if len(r.cpu.memory) > 0 {
		out.Memory.Arenas = []int64{r.stats.TransientBytes}
	}
	index := out.Memory.addTensors(r.cpu)
	for i, op := range r.cpu.ops {
		d := RegionDispatch{
			OpIndex: i, Kernel: op.Name, Grid: [3]uint32{1, 1, 1}, Barrier: i > 0,
			Reads: []RegionUse{}, Writes: []RegionUse{},
		}
		operands := []RegionOperand{}
		for n, a := range op.Args {
			if a.View == nil {
				continue
			}
			k := index[a.View.st]
			out.Memory.Tensors[k].Last = i
			operands = append(operands, a.describe(n, k))
			if a.Access&AccessRead != 0 {
				d.Reads = append(d.Reads, a.use(k))
			}
			if a.Access&AccessWrite != 0 {
				d.Writes = append(d.Writes, a.use(k))
			}
		}
		out.Ops = append(out.Ops, RegionOp{Name: op.Name, FusedFrom: []string{}, Operands: operands, Dispatches: 1})
		out.Dispatches = append(out.Dispatches, d)
	}
	return out, nil
}

// describe describes the operand with that index, a view of that tensor.
func (a Arg) describe(index, tensor int) RegionOperand {
	l := a.View.layout
	return RegionOperand{
		Index: index, Tensor: tensor, Access: a.Access, DType: a.View.dtype,
		Shape: append([]int{}, l.Shape...), Strides: append([]int{}, l.Strides...), Offset: l.Offset,
	}
}

// use is the part of the tensor that the operand covers.
func (a Arg) use(tensor int) RegionUse {
	lo, hi := a.View.layout.Extent()
	size := int64(a.View.dtype.Size())
	return RegionUse{Tensor: tensor, Offset: int64(lo) * size, Bytes: int64(hi-lo) * size}
}

// addTensors lists what the region uses, in the order of first use.
func (m *RegionMemory) addTensors(c *cpuRegion) map[*storage]int {
	index := make(map[*storage]int, len(c.uses))
	for _, u := range c.uses {
		index[u.st] = len(m.Tensors)
		kind := RegionTensorExternal
		switch {
		case u.st.mapped != nil:
			kind = RegionTensorMapped
		case u.owned:
			kind = RegionTensorKept
		}
		m.Tensors = append(m.Tensors, RegionTensor{Kind: kind, Bytes: int64(u.st.bytes), First: u.first})
	}
	for _, t := range c.memory {
		at := &m.Tensors[index[t.st]]
		at.Kind, at.Offset = RegionTensorPlanned, int64(t.offset)
	}
	return index
}
