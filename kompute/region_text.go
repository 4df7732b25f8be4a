package kompute

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/internal/array"
)

// String returns the text of Describe, or its error's.
func (r *Region) String() string {
	d, err := r.Describe()
	if err != nil {
		return err.Error()
	}
	return d.String()
}

// String lists the region's work, with a line for each op with its operands and
// for each dispatch, and its memory.
func (d *RegionDescription) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "region of %d ops, %d after fusion: %d dispatches in %d phases, %d bytes of transients (%d unplanned)\n",
		d.CapturedOps, len(d.Ops), len(d.Dispatches), d.PhaseCount(), d.Memory.TransientBytes, d.Memory.TransientBytesUnplanned)
	next := 0
	for _, op := range d.Ops {
		d.writeOp(&b, op)
		for range op.Dispatches {
			if next < len(d.Dispatches) {
				d.writeDispatch(&b, d.Dispatches[next])
			}
			next++
		}
	}
	return b.String()
}

func (d *RegionDescription) writeOp(b *strings.Builder, op RegionOp) {
	b.WriteString("  " + op.Name)
	if len(op.FusedFrom) > 0 {
		fmt.Fprintf(b, " = %s (%s)", strings.Join(op.FusedFrom, " + "), op.Pass)
	}
	b.WriteByte('\n')
	for _, o := range op.Operands {
		fmt.Fprintf(b, "    %-10s %s", o.Access, o)
		if o.Tensor >= 0 {
			fmt.Fprintf(b, " of %s", d.TensorName(o.Tensor))
		}
		b.WriteByte('\n')
	}
}

// String returns element type and shape, "float32[1 256]", and, unless the view
// is contiguous from the tensor's start, strides and offset in elements.
func (o RegionOperand) String() string {
	text := fmt.Sprintf("%s%v", o.DType, o.Shape)
	if l, err := array.Contiguous(o.Shape...); err != nil || !slices.Equal(o.Strides, l.Strides) {
		text += fmt.Sprintf(" strides %v", o.Strides)
	}
	if o.Offset != 0 {
		text += fmt.Sprintf(" offset %d", o.Offset)
	}
	return text
}

func (d *RegionDescription) writeDispatch(b *strings.Builder, one RegionDispatch) {
	if one.Barrier {
		b.WriteString("    -- barrier --\n")
	}
	fmt.Fprintf(b, "    %s %v", one.Kernel, one.Grid)
	d.writeUses(b, " reads", one.Reads)
	d.writeUses(b, " writes", one.Writes)
	if one.Overlaps {
		b.WriteString(" overlaps")
	}
	b.WriteByte('\n')
}

func (d *RegionDescription) writeUses(b *strings.Builder, verb string, uses []RegionUse) {
	for _, u := range uses {
		fmt.Fprintf(b, "%s %s[%d+%d]", verb, d.TensorName(u.Tensor), u.Offset, u.Bytes)
		verb = ","
	}
}

// TensorName names a tensor of the region by kind and index, "planned#3".
func (d *RegionDescription) TensorName(index int) string {
	if index < 0 || index >= len(d.Memory.Tensors) {
		return fmt.Sprintf("#%d", index)
	}
	return fmt.Sprintf("%s#%d", d.Memory.Tensors[index].Kind, index)
}
