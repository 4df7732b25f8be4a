package ops

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var paramStructs = []any{
	binaryOp{},
	unaryOp{},
	copyOp{},
	castOp{},
	siLUMulOp{},
	softmaxOp{},
	rmsNormOp{},
	layerNormOp{},
	reduceOp{},
	randomOp{},
	sampleOp{},
	gatherOp{},
	quantizeOp{},
	quantizedGatherOp{},
	dequantizeOp{},
	quantizedMatMulOp{},
	matMulOp{},
	ropeOp{},
	sdpaOp{},
	sliceUpdateOp{},
	sliceOp{},
	fillOp{},
	arangeOp{},
	concatOp{},
	padOp{},
	whereOp{},
	gatherAxisOp{},
	scatterOp{},
}

// field is a member of a parameter struct, as C spells it.
type field struct{ name, ctype string }

// TestParamsMirrorHeader holds the structs of params.go to csrc/ops/op_params.h.
func TestParamsMirrorHeader(t *testing.T) {
	header, err := os.ReadFile("../csrc/ops/op_params.h")
	require.NoError(t, err)
	inC := map[string][]field{}
	member := regexp.MustCompile(`(?m)^\s*(uint32_t|int32_t|float) (\w+)(\[\d+\])?;`)
	fused := fusedOps(string(header))
	for _, m := range regexp.MustCompile(`(?s)struct (\w+) \{(.*?)\};`).FindAllStringSubmatch(string(header), -1) {
		if slices.Contains(fused, strings.ToLower(strings.TrimSuffix(m[1], "Op"))) {
			continue
		}
		fields := member.FindAllStringSubmatch(m[2], -1)
		require.Len(t, fields, strings.Count(m[2], ";"), "a member of %s that this test does not read", m[1])
		for _, f := range fields {
			inC[strings.ToLower(m[1])] = append(inC[strings.ToLower(m[1])], field{f[2], f[1] + f[3]})
		}
	}
	require.Len(t, inC, len(paramStructs))
	for _, p := range paramStructs {
		typ := reflect.TypeOf(p)
		var inGo []field
		for i := range typ.NumField() {
			f := typ.Field(i)
			inGo = append(inGo, field{snake(f.Name), ctype(t, f.Type)})
		}
		require.Equal(t, inC[strings.ToLower(typ.Name())], inGo, typ.Name())
	}
}

// fusedOps returns the ops that only passes over the graph make, without
// underscores. They have no Go function.
func fusedOps(header string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^// (\w+), made by passes only`).FindAllStringSubmatch(header, -1) {
		names = append(names, strings.ReplaceAll(m[1], "_", ""))
	}
	return names
}

// snake spells GroupSize group_size.
func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}

func ctype(t *testing.T, typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Uint32:
		return "uint32_t"
	case reflect.Int32:
		return "int32_t"
	case reflect.Float32:
		return "float"
	case reflect.Array:
		return ctype(t, typ.Elem()) + "[" + strconv.Itoa(typ.Len()) + "]"
	}
	require.Fail(t, "no 32-bit type", "%v", typ)
	return ""
}

// TestKindsMirrorHeader holds the kinds, and with them package fallback's, to
// shaders/include/types.h.
func TestKindsMirrorHeader(t *testing.T) {
	header, err := os.ReadFile("../shaders/include/types.h")
	require.NoError(t, err)
	for family, names := range map[string][]string{
		"BINARY": binaryNames[:], "UNARY": unaryNames[:], "REDUCE": reduceNames[:], "SCATTER": scatterNames[:],
	} {
		found := regexp.MustCompile(`(?m)^#define `+family+`_(\w+) (\d+)$`).FindAllStringSubmatch(string(header), -1)
		require.Len(t, found, len(names), family)
		for _, m := range found {
			value, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			require.Equal(t, strings.ToLower(m[1]), names[value], family)
		}
	}
}

// TestOpsAreInTable looks up every op's basename in the table of csrc.
func TestOpsAreInTable(t *testing.T) {
	table, err := os.ReadFile("../csrc/ops/ops.def")
	require.NoError(t, err)
	header, err := os.ReadFile("../csrc/ops/op_params.h")
	require.NoError(t, err)
	fused := fusedOps(string(header))
	rows := regexp.MustCompile(`(?m)^KPX_OP\((\w+)\)`).FindAllStringSubmatch(string(table), -1)
	require.Len(t, rows, len(paramStructs)+len(fused))
	for _, row := range rows {
		if slices.Contains(fused, strings.ReplaceAll(row[1], "_", "")) {
			continue
		}
		source, err := os.ReadFile(row[1] + ".go")
		require.NoError(t, err)
		require.Contains(t, string(source), `newCall(s, "`+row[1]+`")`)
	}
}
