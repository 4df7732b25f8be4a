package kompute

import (
	"encoding/json"
	"fmt"
	"strings"
)

// JSON describes the region: its ops and what they were fused from; its
// dispatches with kernel, grid, barriers and what they read and write; its
// memory. It is nil after Close.
func (r *Region) JSON() []byte {
	d := r.s.dev
	d.mu.Lock()
	if r.closed {
		d.mu.Unlock()
		return nil
	}
	r.users++
	d.mu.Unlock()
	text := r.s.queue.describe(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	r.leave()
	return text
}

// regionText is what String reads of JSON.
type regionText struct {
	Ops []struct {
		Op, Pass   string
		Fused      []string
		Dispatches int
	}
	Dispatches []struct {
		Kernel  string
		Grid    [3]uint32
		Barrier bool
		Reads   []tensorUse
		Writes  []tensorUse
	}
	Tensors []struct {
		Kind          string
		Bytes         int64
		Arena, Offset int64
	}
}

type tensorUse struct {
	Tensor int64 `json:"tensor"`
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// String lists the region's work, a line for each op and each dispatch, and its
// memory.
func (r *Region) String() string {
	st := r.Stats()
	var b strings.Builder
	fmt.Fprintf(&b, "region of %d ops, %d after fusion: %d dispatches, %d barriers, %d bytes of transients (%d unplanned)\n",
		st.Ops, st.FusedOps, st.Dispatches, st.Barriers, st.TransientBytes, st.TransientBytesUnplanned)
	var t regionText
	if text := r.JSON(); text == nil || json.Unmarshal(text, &t) != nil {
		return b.String()
	}
	next := 0
	for _, op := range t.Ops {
		b.WriteString("  " + op.Op)
		if len(op.Fused) > 0 {
			fmt.Fprintf(&b, " = %s (%s)", strings.Join(op.Fused, " + "), op.Pass)
		}
		b.WriteByte('\n')
		for range op.Dispatches {
			if next < len(t.Dispatches) {
				t.dispatch(&b, next)
			}
			next++
		}
	}
	return b.String()
}

// dispatch writes one dispatch.
func (t *regionText) dispatch(b *strings.Builder, i int) {
	d := t.Dispatches[i]
	if d.Barrier {
		b.WriteString("    -- barrier --\n")
	}
	fmt.Fprintf(b, "    %s %v", d.Kernel, d.Grid)
	t.uses(b, " reads", d.Reads)
	t.uses(b, " writes", d.Writes)
	b.WriteByte('\n')
}

func (t *regionText) uses(b *strings.Builder, verb string, uses []tensorUse) {
	for _, u := range uses {
		kind := ""
		if u.Tensor >= 0 && u.Tensor < int64(len(t.Tensors)) {
			kind = t.Tensors[u.Tensor].Kind + " "
		}
		fmt.Fprintf(b, "%s %s#%d[%d+%d]", verb, kind, u.Tensor, u.Offset, u.Bytes)
		verb = ","
	}
}
