package optest

import (
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// testdata holds one file per op, written by scripts/mlx_vectors.py, whose doc comment
// describes the format.
//
//go:embed testdata/*.safetensors
var testdata embed.FS

// vector is a case with the result that MLX computed.
type vector struct {
	Case
	want []float64
}

// entry is a case as the file's metadata has it.
type entry struct {
	Name   string             `json:"name"`
	Params Params             `json:"params"`
	Views  map[string][][]any `json:"views"`
	Out    string             `json:"out"`
	Inputs map[string]string  `json:"inputs"`
}

// stored is a tensor as the file's header has it.
type stored struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

var storedTypes = map[string]array.DType{
	"F32": array.Float32, "F16": array.Float16, "BF16": array.BFloat16, "I32": array.Int32,
	"U32": array.Uint32, "BOOL": array.Bool, "U8": array.Uint8,
}

// readVectors reads the cases of one op.
func readVectors(t require.TestingT, op string) []vector {
	file, err := testdata.ReadFile("testdata/" + op + ".safetensors")
	require.NoError(t, err)
	size := binary.LittleEndian.Uint64(file)
	body := file[8+size:]
	var header map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(file[8:8+size], &header))
	var meta struct{ Cases string }
	require.NoError(t, json.Unmarshal(header["__metadata__"], &meta))
	var entries []entry
	require.NoError(t, json.Unmarshal([]byte(meta.Cases), &entries))

	load := func(name string) array.Array {
		var s stored
		require.NoError(t, json.Unmarshal(header[name], &s))
		a, err := array.New(storedTypes[s.DType], s.Shape...)
		require.NoError(t, err)
		copy(a.Data, body[s.Offsets[0]:s.Offsets[1]])
		return a
	}
	vectors := make([]vector, 0, len(entries))
	for _, e := range entries {
		out := load(e.Out)
		v := vector{Case: Case{Name: e.Name, Params: e.Params, To: out.DType, In: map[string]array.Array{}}, want: floats(out)}
		for operand, name := range e.Inputs {
			a := load(name)
			for _, step := range e.Views[operand] {
				a.Layout, err = viewStep(a.Layout, step)
				require.NoError(t, err)
			}
			v.In[operand] = a
		}
		vectors = append(vectors, v)
	}
	return vectors
}

// viewStep applies one view of an entry.
func viewStep(l array.Layout, step []any) (array.Layout, error) {
	n := make([]int, len(step)-1)
	for i, v := range step[1:] {
		n[i] = int(v.(float64))
	}
	switch step[0] {
	case "transpose":
		return l.Transpose(n...)
	case "slice":
		return l.Slice(n[0], n[1], n[2], n[3])
	case "broadcast":
		return l.Broadcast(n...)
	case "expand":
		return l.ExpandDims(n[0])
	}
	return l, fmt.Errorf("no view %v", slices.Clone(step))
}
