package main

import (
	"fmt"
	"strings"
)

const stamp = "// Made from csrc/ops/ops.def by go generate ./internal/opdef; do not edit.\n"

// glsl returns the header of constants that GLSL and C++ include.
func (t *table) glsl() string {
	var b strings.Builder
	b.WriteString(stamp + "#ifndef GEN_KINDS_H\n#define GEN_KINDS_H\n")
	for _, c := range t.constants {
		fmt.Fprintf(&b, "\n%s#define %s %d\n", comment("", c.doc), c.name, c.value)
	}
	for _, k := range t.kinds {
		fmt.Fprintf(&b, "\n%s", comment("", k.doc))
		for _, v := range k.values {
			fmt.Fprintf(&b, "#define %s_%s %d\n", k.prefix, strings.ToUpper(v.name), v.number)
		}
	}
	b.WriteString("\n#endif\n")
	return b.String()
}

// cpp returns the header of parameter structs and calls.
func (t *table) cpp() string {
	var b strings.Builder
	b.WriteString(stamp + `#pragma once

#include "ops/call.hpp"

// clang-format off
namespace kpx {
`)
	written := map[string]bool{}
	for i := range t.ops {
		t.params(&b, &t.ops[i], written)
	}
	for i := range t.ops {
		t.ops[i].call(&b, i)
	}
	for _, k := range t.kinds {
		if k.goType == "DType" {
			k.names(&b)
		}
	}
	b.WriteString("// ROW(name, Name) for every op, in the order of their numbers.\n#define KPX_OPS(ROW)")
	for _, o := range t.ops {
		fmt.Fprintf(&b, " \\\n    ROW(%s, %s)", o.name, o.goName)
	}
	b.WriteString("\n\n} // namespace kpx\n")
	return b.String()
}

// comment writes documentation in lines of at most 120 columns.
func comment(indent string, doc []string) string {
	var b strings.Builder
	line := indent + "//"
	for _, word := range strings.Fields(strings.Join(doc, " ")) {
		if len([]rune(line))+1+len([]rune(word)) > 120 {
			b.WriteString(line + "\n")
			line = indent + "//"
		}
		line += " " + word
	}
	if len(doc) == 0 {
		return ""
	}
	return b.String() + line + "\n"
}

// params writes the parameter struct of an op, after those that it contains.
func (t *table) params(b *strings.Builder, o *op, written map[string]bool) {
	if written[o.name] {
		return
	}
	written[o.name] = true
	for _, f := range o.fields {
		for i := range t.ops {
			if t.ops[i].goName+"Op" == f.ctype {
				t.params(b, &t.ops[i], written)
			}
		}
	}
	fmt.Fprintf(b, "\nstruct %sOp {\n", o.goName)
	if len(o.fields) == 0 {
		b.WriteString("    uint32_t reserved;\n")
	}
	for _, f := range o.fields {
		length := ""
		if f.length > 0 {
			length = fmt.Sprintf("[%d]", f.length)
		}
		fmt.Fprintf(b, "%s    %s %s%s;\n", comment("    ", f.doc), t.ctype(f.ctype), f.name, length)
	}
	b.WriteString("};\n")
}

func (t *table) ctype(name string) string {
	switch name {
	case "uint":
		return "uint32_t"
	case "int":
		return "int32_t"
	case "float":
		return name
	}
	for _, k := range t.kinds {
		if k.goType == name {
			return "uint32_t"
		}
	}
	return name
}

// call writes the C++ class for the operands of an op.
func (o *op) call(b *strings.Builder, number int) {
	fmt.Fprintf(b, "\n%sclass %sCall : public CallOf<%sOp> {\n  public:\n", comment("", o.doc), o.goName, o.goName)
	fmt.Fprintf(b, "    static constexpr int32_t kOp = %d;\n", number)
	single := o.operands
	if o.group.count > 0 {
		single = o.operands[:o.group.first+o.group.size]
		fmt.Fprintf(b, "    static constexpr uint32_t kGroups = %d, kGroupSize = %d; // of the operands from k%s on\n",
			o.group.count, o.group.size, camel(o.operands[o.group.first].name))
	}
	var names []string
	for _, p := range single {
		names = append(names, "k"+camel(p.name))
	}
	fmt.Fprintf(b, "    enum Operand : uint32_t { %s };\n", strings.Join(names, ", "))
	b.WriteString("    static constexpr OperandInfo kOperands[] = {\n")
	many := false
	for _, p := range o.operands {
		fmt.Fprintf(b, "        {\"%s\", %s, %v},\n", p.name, accesses[p.access], p.optional)
		many = many || p.many
	}
	fmt.Fprintf(b, "    };\n    static constexpr bool kVariadic = %v; // whether the first operand may be repeated\n    using CallOf::CallOf;\n\n", many)
	for i, p := range single {
		switch {
		case p.many:
			fmt.Fprintf(b, "    uint32_t %s_count() const { return count() - %d; }\n", p.name, len(o.operands)-1)
			fmt.Fprintf(b, "    const Array &%s(uint32_t i) const { return at(i); }\n", p.name)
		case many:
			fmt.Fprintf(b, "    const Array &%s() const { return at(count() - %d); }\n", p.name, len(o.operands)-i)
		case o.group.count > 0 && i >= o.group.first:
			fmt.Fprintf(b, "    const Array &%s(uint32_t i) const { return at(k%s + kGroupSize * i); }\n", p.name, camel(p.name))
		default:
			fmt.Fprintf(b, "    const Array &%s() const { return at(k%s); }\n", p.name, camel(p.name))
		}
	}
	fmt.Fprintf(b, "};\nvoid lower_%s(Lowering &lowering, const %sCall &call);\n", o.name, o.goName)
}

// names writes the names of a family by number.
func (k *kinds) names(b *strings.Builder) {
	fmt.Fprintf(b, "\ninline constexpr const char *k%sNames[] = {", k.goType)
	next := 0
	for _, v := range k.values {
		for ; next < v.number; next++ {
			b.WriteString("\"unknown\", ")
		}
		fmt.Fprintf(b, "\"%s\", ", v.name)
		next++
	}
	b.WriteString("};\n\n")
}

var accesses = map[string]string{"read": "KPX_READ", "write": "KPX_WRITE", "update": "KPX_READ_WRITE"}
