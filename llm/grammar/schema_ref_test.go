package grammar

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testlimit"
)

// A pointer has one spelling, apart from the escapes of a URI.
func TestPointers(t *testing.T) {
	const parts = `"$defs": {"l": [true, {"const": 1}], "a~b": {"const": 2}, "~1": {"const": 3}, "": {"const": 4}, "01": {"const": 5}, "#": {"const": 6}}`
	for pointer, want := range map[string]string{
		"#/$defs/l/1": "1", "#/%24defs/l/%31": "1", "#%2f$defs%2Fl/1": "1", "#/$defs/a~0b": "2", "#/$defs/~01": "3", "#/$defs/": "4",
		"#/$defs/01": "5", "#/$defs/#": "6",
	} {
		g := compile(t, fmt.Sprintf(`{"$ref": %q, %s}`, pointer, parts), Options{})
		require.True(t, accepts(g, want), pointer)
		require.False(t, accepts(g, "0"), pointer)
	}
	for pointer, reason := range map[string]string{
		"#/$defs/l/01": `"01" is no index`, "#/$defs/l/00": "no index", "#/$defs/l/+1": "no index", "#/$defs/l/-0": "no index",
		"#/$defs/l/-": "no index", "#/$defs/l/": "no index", "#/$defs/l/1 ": "no index", "#/$defs/l/1_0": "no index",
		"#/$defs/l/2": "not in the schema", "#/$defs/l/99999999999999999999": "not in the schema",
		"#/$defs/a~b": "neither 0 nor 1", "#/$defs/~": "neither 0 nor 1", "#/$defs/~~1": "neither 0 nor 1",
		"#node": "neither # nor a pointer that begins with #/", "": "neither # nor", "/$defs/l/1": "neither # nor", "%23/$defs/l/1": "neither # nor",
	} {
		_, err := Compile(fmt.Appendf(nil, `{"$ref": %q, %s}`, pointer, parts), bytesAlone(), Options{})
		require.ErrorIs(t, err, ErrSchema, pointer)
		require.ErrorContains(t, err, reason, pointer)
		require.ErrorContains(t, err, "#/$ref", pointer)
	}
	_, err := Compile([]byte(`{"$ref": 1}`), bytesAlone(), Options{})
	require.ErrorContains(t, err, "1 is neither # nor a pointer")
}

// A part of a schema is compiled once, whatever its $ref are relative to.
func TestPartsAreCompiledOnce(t *testing.T) {
	const levels = 20
	schema := `{"const":1}`
	for i := range levels {
		schema = fmt.Sprintf(`{"$id":"%d","anyOf":[{"$ref":"#%s"},%s]}`, i, strings.Repeat("/anyOf/1", i+1), schema)
	}
	b := newBuilder()
	_, err := b.schema([]byte(schema))
	require.NoError(t, err)
	require.Len(t, b.refs, 1)
}

// Values that are not of an enum's type make no grammar larger, but take time whenever the enum is
// compiled.
func TestManyValuesOfOtherTypes(t *testing.T) {
	values := func(bytes int) string {
		return `{"type":["null","boolean","array","object","string"],"enum":[` + strings.Repeat("1e999,", bytes/6) + `""]}`
	}
	reject := func(reason, part string, refs []string) {
		schema := `{"anyOf":[` + strings.Join(refs, ",") + `],"$defs":{"x":` + part + `}}`
		testlimit.Run(t, 3*time.Second, 256<<20, func() {
			_, err := Compile([]byte(schema), bytesAlone(), Options{})
			require.ErrorContains(t, err, reason)
		})
	}
	const levels = 6
	var refs []string
	for i := range 1900 { // spellings of the same pointer
		p := ""
		for n := range levels {
			p += "/" + []string{"0", "00", "+0", "-0"}[i>>(2*n)&3]
		}
		refs = append(refs, `{"$ref":"#/$defs/x`+p+`"}`)
	}
	reject("no index", strings.Repeat("[", levels)+values(60_000)+strings.Repeat("]", levels), refs)

	part := values(100_000)
	refs = nil
	for i := range 50 { // parts that contain the enum
		refs = append(refs, `{"$ref":"#/$defs/x`+strings.Repeat("/items", i)+`"}`)
		part = `{"items":` + part + `}`
	}
	reject("too large", part, refs)
}
