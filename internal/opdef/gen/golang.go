package main

import (
	"fmt"
	"go/format"
	"strings"
)

// golang returns the Go file.
func (t *table) golang() (string, error) {
	var b strings.Builder
	b.WriteString("// Code generated from csrc/ops/ops.def by go generate ./internal/opdef; DO NOT EDIT.\n\npackage opdef\n")
	for _, c := range t.constants {
		fmt.Fprintf(&b, "\n%sconst %s = %d\n", comment("", c.doc), camel(strings.ToLower(c.name)), c.value)
	}
	for _, k := range t.kinds {
		k.golang(&b)
	}
	b.WriteString("\n// FusedOps are the ops that only passes over the graph make.\nvar FusedOps = []string{")
	for _, o := range t.ops {
		if o.fused {
			fmt.Fprintf(&b, "%q, ", o.name)
		}
	}
	b.WriteString("}\n\n// Ops lists the other ops.\nvar Ops = []*Op{")
	for _, o := range t.ops {
		if !o.fused {
			fmt.Fprintf(&b, "&%s.Op, ", o.goName)
		}
	}
	b.WriteString("}\n")
	for i := range t.ops {
		t.ops[i].golang(&b)
	}
	text, err := format.Source([]byte(b.String()))
	return string(text), err
}

func (k *kinds) golang(b *strings.Builder) {
	fmt.Fprintf(b, "\n// %s is one of the kinds below.\ntype %s uint32\n\n%sconst (\n", k.goType, k.goType, comment("", k.doc))
	last := 0
	for _, v := range k.values {
		fmt.Fprintf(b, "%s %s = %d\n", v.goName, k.goType, v.number)
		last = v.number
	}
	fmt.Fprintf(b, ")\n\n// Num%ss is how many numbers there are up to the last %s.\nconst Num%ss = %d\n", k.goType, k.goType, k.goType, last+1)
	names := strings.ToLower(k.goType[:1]) + k.goType[1:] + "Names"
	fmt.Fprintf(b, "\nvar %s = [Num%ss]string{", names, k.goType)
	for _, v := range k.values {
		fmt.Fprintf(b, "%s: %q, ", v.goName, v.name)
	}
	fmt.Fprintf(b, "}\n\n// String returns the name in csrc/ops/ops.def.\nfunc (k %s) String() string { return nameOf(%s[:], uint32(k)) }\n", k.goType, names)
}

func (o *op) golang(b *strings.Builder) {
	fmt.Fprintf(b, "\n// %sParams are the parameters of %s.\ntype %sParams struct {\n", o.goName, o.name, o.goName)
	if len(o.fields) == 0 {
		b.WriteString("Reserved uint32\n")
	}
	for _, f := range o.fields {
		typ := map[string]string{"uint": "uint32", "int": "int32", "float": "float32"}[f.ctype]
		if other, isOp := strings.CutSuffix(f.ctype, "Op"); isOp {
			typ = other + "Params"
		} else if typ == "" {
			typ = f.ctype
		}
		if f.length > 0 {
			typ = fmt.Sprintf("[%d]%s", f.length, typ)
		}
		fmt.Fprintf(b, "%s%s %s\n", comment("", f.doc), camel(f.name), typ)
	}
	b.WriteString("}\n\n")
	fmt.Fprintf(b, "// %s is the op %s and its operands.\n//\n%svar %s = struct {\nOp\n", o.goName, o.name, comment("", o.doc), o.goName)
	var names, infos []string
	for i, p := range o.operands {
		if i < o.group.first+o.group.size || o.group.count == 0 {
			names = append(names, camel(p.name))
		}
		infos = append(infos, fmt.Sprintf("{Index: %d, Name: %q, Access: %s, Optional: %v}", i, p.name, camel(p.access), p.optional))
	}
	fmt.Fprintf(b, "%s Operand\n}{\nOp: Op{Name: %q, Operands: []Operand{\n%s,\n}},\n", strings.Join(names, ", "), o.name, strings.Join(infos, ",\n"))
	for i := range names {
		fmt.Fprintf(b, "%s: Operand%s,\n", names[i], infos[i])
	}
	b.WriteString("}\n")
	if g := o.group; g.count > 0 {
		fmt.Fprintf(b, "\n// The last operands of %s are several groups, of which the first has names.\nconst (\n%sGroups = %d\n%sGroupSize = %d\n)\n",
			o.name, o.goName, g.count, o.goName, g.size)
	}
}
