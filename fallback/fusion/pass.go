package fusion

import (
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// A pass finds groups of nodes whose work one fused op can do, and replaces
// them: it walks the graph from a node that it recognises, follows data by
// producer and usesAfter, builds the fused node by call, and calls replace,
// which checks everything that could make the rewrite wrong, and returns false
// if it would be.
type pass struct {
	name string
	run  func(g *Graph)
}

// passes are those of csrc/fusion/passes.def except for NativePasses, in the same order.
var passes = []pass{
	{"dead_ops", deadOps},
	{"attention", attention},
	{"paged_heads", pagedHeads},
	{"paged_step", pagedStep},
	{"gate_up", gateUp},
	{"qkv", qkv},
	{"residual", residual},
	{"norm_projection", normProjection},
	{"gated_projection", gatedProjection},
	{"attention_projection", attentionProjection},
	{"projection_arg_max", projectionArgMax},
}

// NativePasses are the names of the passes that only native devices have: they save dispatches that loops of the CPU
// backend do not need.
var NativePasses = []string{"qkv_heads"}

// Passes are the names of the passes, in the order in which they run.
func Passes() []string {
	var names []string
	for _, p := range passes {
		names = append(names, p.name)
	}
	return names
}

// Run runs all passes that are not disabled, each once.
func (g *Graph) Run(disabled func(pass string) bool) {
	for _, p := range passes {
		if !disabled(p.name) {
			g.pass = p.name
			p.run(g)
		}
	}
}

// Known reports whether the node is an op of csrc/ops/ops.def. Others are left
// alone, and nothing is moved past them.
func (n *Node) Known() bool { return knownOps[n.Name] }

var knownOps = func() map[string]bool {
	known := make(map[string]bool)
	for _, op := range opdef.Ops {
		known[op.Name] = true
	}
	for _, name := range opdef.FusedOps {
		known[name] = true
	}
	return known
}()
