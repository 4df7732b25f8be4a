package kompute

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/fallback/fusion"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// cpuGraph is a capture as the fusion passes see it.
type cpuGraph struct {
	*fusion.Graph
	capture  *capture
	storages map[*fusion.Storage]*storage
	known    map[*storage]*fusion.Storage
}

// cpuCall is an op call of a region, maybe a fused one.
type cpuCall struct {
	*fusion.Node
	operands []*storage       // nil where absent
	stages   *fallback.Stages // nil: it is one function of the captured op
	level    int              // see cpuGraph.levels
	scratch  int              // index into cpuRegion.memory; -1 if there is none
}

// cpuDispatch is a loop of a call, or all of it.
type cpuDispatch struct {
	call, stage int
	kernel      string
	level       int
	barrier     bool
}

// newCPUGraph makes the graph of the captured ops. dev.mu is held.
func newCPUGraph(c *capture) *cpuGraph {
	g := &cpuGraph{capture: c, storages: make(map[*fusion.Storage]*storage), known: make(map[*storage]*fusion.Storage)}
	nodes := make([]*fusion.Node, len(c.ops))
	for i, op := range c.ops {
		n := &fusion.Node{Name: op.Name, Params: op.Params, Call: i}
		for _, a := range op.Args {
			n.Arrays = append(n.Arrays, g.array(a.View))
			n.Access = append(n.Access, opdef.Access(a.Access))
		}
		nodes[i] = n
	}
	g.Graph = fusion.NewGraph(nodes)
	return g
}

func (g *cpuGraph) array(v *View) fusion.Array {
	if v == nil {
		return fusion.Array{}
	}
	st, found := g.known[v.st]
	if !found {
		st = &fusion.Storage{Bytes: v.st.bytes, Transient: v.st.transientOf(g.capture)}
		g.known[v.st], g.storages[st] = st, v.st
	}
	return fusion.Array{Storage: st, DType: v.dtype, Layout: v.layout}
}

// lower runs the passes and lists what is left, in the order in which it runs. Both look
// at shapes that only the typed ops have checked; on shapes of other callers they may
// panic, which is the capture's error.
func (g *cpuGraph) lower(ops []Op, disabled func(pass string) bool) (out *cpuRegion, err error) {
	at := &Op{Name: "capture"}
	defer g.capture.s.recovered(at, &err)
	g.Run(disabled)
	out = &cpuRegion{ops: ops}
	for _, n := range g.Nodes() {
		at.Name = n.Name
		c := cpuCall{Node: n, scratch: -1, operands: make([]*storage, len(n.Arrays))}
		arrays := make([]array.Array, len(n.Arrays))
		for i, a := range n.Arrays {
			if a.Present() {
				c.operands[i] = g.storages[a.Storage]
			}
			arrays[i] = a.Host()
		}
		c.stages = fallback.StagesOf(n.Name, arrays, n.Params)
		out.calls = append(out.calls, c)
	}
	out.order()
	return out, nil
}

// order sorts the calls by level and lists their loops.
func (out *cpuRegion) order() {
	levels(out.calls)
	slices.SortStableFunc(out.calls, func(a, b cpuCall) int { return a.level - b.level })
	last := 0
	for i := range out.calls {
		c := &out.calls[i]
		for stage := range c.loops() {
			d := cpuDispatch{call: i, stage: stage, kernel: c.Name, level: c.level + stage}
			if c.stages != nil {
				d.kernel = c.stages.Loops[stage].Kernel
			}
			d.barrier = d.level > last
			last = max(last, d.level)
			out.dispatches = append(out.dispatches, d)
		}
	}
}

// loops counts the call's loops.
func (c *cpuCall) loops() int {
	if c.stages == nil {
		return 1
	}
	return len(c.stages.Loops)
}

// levels gives each call the earliest level at which what it depends on is done:
// calls of one level may run at once. A call of several loops takes as many
// levels. Ops that only their own function knows wait for all before, and all
// after wait for them.
func levels(calls []cpuCall) {
	type use struct{ written, read int } // levels from which on it has been
	uses := make(map[*storage]use)
	floor, top := 0, 0
	for i := range calls {
		c := &calls[i]
		c.level = floor
		if !c.Known() {
			c.level = top
		}
		for k, st := range c.operands {
			if st == nil {
				continue
			}
			c.level = max(c.level, uses[st].written)
			if c.Access[k] != opdef.Read {
				c.level = max(c.level, uses[st].read)
			}
		}
		end := c.level + c.loops()
		for k, st := range c.operands {
			if st == nil {
				continue
			}
			u := uses[st]
			if c.Access[k] != opdef.Write {
				u.read = max(u.read, end)
			}
			if c.Access[k] != opdef.Read {
				u.written = max(u.written, end)
			}
			uses[st] = u
		}
		top = max(top, end)
		if !c.Known() {
			floor = end
		}
	}
}

// transients returns what belongs to the region and holds nothing between
// replays, in the order of first use: storages, and what the loops of a call hand
// on. dev.mu is held.
func (g *cpuGraph) transients(c *capture, calls []cpuCall) []transient {
	var list []transient
	index := make(map[*storage]int)
	for i := range calls {
		call := &calls[i]
		last := call.level + call.loops() - 1
		for _, st := range call.operands {
			if st == nil || !st.transientOf(c) || c.uses[c.index[st]].needs || st.cpu.host != nil || st.bytes == 0 {
				continue
			}
			k, known := index[st]
			if !known {
				k = len(list)
				index[st] = k
				list = append(list, transient{st: st, bytes: st.bytes, first: call.level})
			}
			list[k].last = max(list[k].last, last)
		}
		if call.stages != nil && call.stages.Scratch > 0 {
			call.scratch = len(list)
			list = append(list, transient{bytes: 4 * call.stages.Scratch, first: call.level, last: last})
		}
	}
	return list
}
