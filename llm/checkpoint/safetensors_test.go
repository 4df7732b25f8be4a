package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// raw builds a file from a header as it stands and n bytes of data.
func raw(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i%2))
	}
	return b
}

func TestParse(t *testing.T) {
	data := raw(`{"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},"__metadata__":{"format":"pt"},`+
		`"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"none":{"dtype":"I64","shape":[0,7],"data_offsets":[8,8]}}   `, 11)
	f, err := checkpoint.Parse("x.safetensors", data)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "none"}, f.Names())
	require.Equal(t, map[string]string{"format": "pt"}, f.Metadata())
	a, ok := f.Tensor("a")
	require.True(t, ok)
	require.Equal(t, array.Float32, a.DType)
	require.Equal(t, []int{1, 2}, a.Shape)
	require.Equal(t, 2, a.Size())
	require.Equal(t, "F32 [1 2]", a.String())
	require.Len(t, a.Data, 8)
	none, _ := f.Tensor("none")
	require.Empty(t, none.Data)
	_, err = none.Array()
	require.ErrorIs(t, err, checkpoint.ErrUnsupported)
	require.ErrorContains(t, err, "I64")
	_, ok = f.Tensor("c")
	require.False(t, ok)
	require.NoError(t, f.Close())
}

// The dtypes of the format are those of its reference implementation.
func TestStoredTypes(t *testing.T) {
	bits := map[int][]string{
		64: {"C64", "F64", "I64", "U64"}, 32: {"F32", "I32", "U32"}, 16: {"BF16", "F16", "I16", "U16"},
		8: {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}, 6: {"F6_E2M3", "F6_E3M2"}, 4: {"F4"},
	}
	for n, names := range bits {
		for _, name := range names {
			f, err := checkpoint.Parse("x", raw(fmt.Sprintf(`{"t":{"dtype":"%s","shape":[8],"data_offsets":[0,%d]}}`, name, n), n))
			require.NoError(t, err)
			tensor, _ := f.Tensor("t")
			require.Equal(t, name+" [8]", tensor.String())
		}
	}
}

// MLX writes null for a file without metadata.
func TestNullMetadata(t *testing.T) {
	f, err := checkpoint.Parse("x", raw(`{"__metadata__":null,"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1))
	require.NoError(t, err)
	require.Equal(t, []string{"t"}, f.Names())
	require.Empty(t, f.Metadata())
}

// TestMalformed has one entry for each kind of false header that must be detected.
func TestMalformed(t *testing.T) {
	one := func(dtype, shape, offsets string, n int) []byte {
		return raw(`{"t":{"dtype":`+dtype+`,"shape":`+shape+`,"data_offsets":`+offsets+`}}`, n)
	}
	two := func(first, second string, n int) []byte {
		return raw(`{"t":{"dtype":"U8","shape":[4],"data_offsets":`+first+`},"u":{"dtype":"U8","shape":[4],"data_offsets":`+second+`}}`, n)
	}
	length := func(n uint64) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), "{}"...) }
	good := one(`"U8"`, `[4]`, `[0,4]`, 4)
	for name, c := range map[string]struct {
		data   []byte
		reason string
	}{
		"empty":                {nil, "too few"},
		"pointer of Git LFS":   {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 8\n"), "git lfs pull"},
		"seven bytes":          {make([]byte, 7), "too few"},
		"header too long":      {length(3), "exceeds the 2 bytes"},
		"header huge":          {length(1 << 40), "exceeds 100000000"},
		"header length -1":     {length(1<<64 - 1), "exceeds 100000000"},
		"header empty":         {length(0), "start with '{'"},
		"header starts blank":  {raw(" {}", 0), "start with '{'"},
		"header cut":           {good[:20], "exceeds"},
		"data cut":             {good[:len(good)-1], "outside the 3 bytes"},
		"data too long":        {append(bytes.Clone(good), 0), "belong to no tensor"},
		"not JSON":             {raw(`{"t":}`, 0), "malformed JSON"},
		"cut JSON":             {raw(`{"t":`, 0), "unexpected EOF"},
		"after JSON":           {raw(`{} x`, 0), "after top-level value"},
		"not UTF-8":            {raw("{\"\xff\":1}", 0), "invalid UTF-8"},
		"deep":                 {raw(`{"t":`+strings.Repeat("[", 10001)+strings.Repeat("]", 10001)+`}`, 0), "exceeded max depth"},
		"duplicate name":       {raw(`{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), `duplicate object member name "t"`},
		"duplicate escaped":    {raw(`{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0074":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), `duplicate object member name "t"`},
		"duplicate field":      {raw(`{"t":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1), `duplicate object member name "dtype"`},
		"entry not object":     {raw(`{"t":1}`, 0), "not an object"},
		"entry null":           {raw(`{"t":null}`, 0), "not an object"},
		"no dtype":             {raw(`{"t":{"shape":[1],"data_offsets":[0,1]}}`, 1), `no "dtype"`},
		"extra field":          {raw(`{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, 1), "fields other than"},
		"metadata not object":  {raw(`{"__metadata__":[]}`, 0), "__metadata__"},
		"metadata not text":    {raw(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
		"dtype number":         {one(`3`, `[4]`, `[0,4]`, 4), "not a string"},
		"dtype unknown":        {one(`"F31"`, `[4]`, `[0,4]`, 4), `unknown dtype "F31"`},
		"shape not array":      {one(`"U8"`, `4`, `[0,4]`, 4), "shape"},
		"shape null":           {one(`"U8"`, `null`, `[0,4]`, 4), "shape"},
		"shape has null":       {one(`"U8"`, `[null]`, `[0,0]`, 0), "shape"},
		"shape negative":       {one(`"U8"`, `[-4]`, `[0,4]`, 4), "shape"},
		"shape minus zero":     {one(`"U8"`, `[-0]`, `[0,0]`, 0), "shape"},
		"shape fraction":       {one(`"U8"`, `[4.0]`, `[0,4]`, 4), "shape"},
		"shape exponent":       {one(`"U8"`, `[4e0]`, `[0,4]`, 4), "shape"},
		"shape text":           {one(`"U8"`, `["4"]`, `[0,4]`, 4), "shape"},
		"shape beyond int64":   {one(`"U8"`, `[9223372036854775808]`, `[0,4]`, 4), "shape"},
		"shape overflows":      {one(`"F32"`, `[4611686018427387904,4]`, `[0,0]`, 0), "overflows"},
		"bytes overflow":       {one(`"F32"`, `[4611686018427387904]`, `[0,0]`, 0), "overflows"},
		"zero hides overflow":  {one(`"U8"`, `[9223372036854775807,4,0]`, `[0,0]`, 0), "overflows"},
		"shape too small":      {one(`"U8"`, `[3]`, `[0,4]`, 4), "needs 3 bytes"},
		"dtype too wide":       {one(`"F32"`, `[4]`, `[0,4]`, 4), "needs 16 bytes"},
		"half a byte":          {one(`"F4"`, `[3]`, `[0,1]`, 1), "whole bytes"},
		"offsets not two":      {one(`"U8"`, `[4]`, `[0,4,4]`, 4), "3 data_offsets"},
		"offsets null":         {one(`"U8"`, `[4]`, `null`, 4), "data_offsets"},
		"offsets reversed":     {one(`"U8"`, `[4]`, `[4,0]`, 4), "outside"},
		"offsets beyond":       {one(`"U8"`, `[4]`, `[4,8]`, 4), "outside"},
		"offsets far beyond":   {one(`"U8"`, `[4]`, `[0,9223372036854775807]`, 4), "outside"},
		"overlap":              {two("[0,4]", "[2,6]", 6), "overlaps"},
		"same place":           {two("[0,4]", "[0,4]", 4), "overlaps"},
		"hole":                 {two("[0,4]", "[5,9]", 9), "hole of 1 bytes"},
		"hole at the start":    {one(`"U8"`, `[4]`, `[2,6]`, 6), "hole of 2 bytes"},
		"empty inside another": {raw(`{"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}`, 4), "overlaps"},
	} {
		f, err := checkpoint.Parse("bad.safetensors", c.data)
		require.Nil(t, f, name)
		require.ErrorIs(t, err, checkpoint.ErrFormat, name)
		require.ErrorContains(t, err, c.reason, name)
		require.ErrorContains(t, err, "bad.safetensors", name)
		var e *checkpoint.FormatError
		require.ErrorAs(t, err, &e, name)
	}
}

// TestUnaligned reads a tensor that lies at an odd address.
func TestUnaligned(t *testing.T) {
	header := `{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	for pad := range 8 {
		data := raw(header+strings.Repeat(" ", pad), 0)
		data = append(data, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0)
		f, err := checkpoint.Parse("x", data)
		require.NoError(t, err)
		tensor, _ := f.Tensor("t")
		got, err := tensor.Floats()
		require.NoError(t, err)
		require.Equal(t, []float32{1, -2}, got)
		require.Equal(t, tensor.Data, tensor.Aligned())
	}
}

func TestFloats(t *testing.T) {
	for dtype, data := range map[string]string{"F32": "\x00\x00\x80\x3f", "F16": "\x00\x3c", "BF16": "\x80\x3f"} {
		tensor := checkpoint.Tensor{Name: "t", Stored: dtype, DType: map[string]array.DType{"F32": array.Float32, "F16": array.Float16, "BF16": array.BFloat16}[dtype], Shape: []int{1}, Data: []byte(data)}
		got, err := tensor.Floats()
		require.NoError(t, err)
		require.Equal(t, []float32{1}, got)
	}
	_, err := checkpoint.Tensor{Stored: "U32", DType: array.Uint32, Shape: []int{0}}.Floats()
	require.ErrorIs(t, err, checkpoint.ErrUnsupported)
}

func TestBool(t *testing.T) {
	tensor := checkpoint.Tensor{Name: "m", Stored: "BOOL", DType: array.Bool, Shape: []int{3}, Data: []byte{0, 1, 1}}
	a, err := tensor.Array()
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, array.Storage[bool](a))
	for _, bad := range []byte{2, 0x80, 0xff} {
		tensor.Data = []byte{0, 1, bad}
		_, err = tensor.Array()
		require.ErrorIs(t, err, checkpoint.ErrFormat)
		require.ErrorContains(t, err, "element 2")
	}
	tensor = checkpoint.Tensor{Stored: "U8", DType: array.Uint8, Shape: make([]int, array.MaxRank+1)}
	_, err = tensor.Array()
	require.ErrorIs(t, err, checkpoint.ErrFormat)
}

// tensors draws a list of tensors to write, also of zero size and odd names.
func tensors(t *rapid.T) []checkpoint.Tensor {
	names := rapid.SliceOfNDistinct(rapid.String().Filter(func(s string) bool { return s != "__metadata__" && !strings.ContainsRune(s, '\ufffd') }), 0, 6, rapid.ID[string]).Draw(t, "names")
	sizes := map[string]int{"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "U8": 1, "BOOL": 1, "I64": 8, "F8_E4M3": 1}
	var out []checkpoint.Tensor
	for _, name := range names {
		dtype := rapid.SampledFrom([]string{"F32", "F16", "BF16", "I32", "U32", "U8", "BOOL", "I64", "F8_E4M3"}).Draw(t, "dtype")
		shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
		n := sizes[dtype]
		for _, d := range shape {
			n *= d
		}
		out = append(out, checkpoint.Tensor{Name: name, Stored: dtype, Shape: shape, Data: rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")})
	}
	return out
}

// TestWriteThenParse: written tensors are read back, aligned.
func TestWriteThenParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := tensors(t)
		metadata := rapid.MapOfN(rapid.StringMatching("[a-z<&]*"), rapid.StringMatching("[a-z<\"]*"), 0, 2).Draw(t, "metadata")
		var b bytes.Buffer
		require.NoError(t, checkpoint.Write(&b, want, metadata))
		f, err := checkpoint.Parse("x", b.Bytes())
		require.NoError(t, err)
		require.Equal(t, metadata, f.Metadata())
		require.Len(t, f.Names(), len(want))
		for _, w := range want {
			got, ok := f.Tensor(w.Name)
			require.True(t, ok, "%q", w.Name)
			require.Equal(t, w.Stored, got.Stored)
			require.ElementsMatch(t, w.Shape, got.Shape)
			require.True(t, bytes.Equal(w.Data, got.Data))
			if len(got.Data) > 0 {
				require.Same(t, &got.Data[0], &got.Aligned()[0], "not aligned")
			}
		}
	})
}

func TestWriteErrors(t *testing.T) {
	u8 := func(name string, shape ...int) checkpoint.Tensor {
		return checkpoint.Tensor{Name: name, Stored: "U8", Shape: shape, Data: []byte{1}}
	}
	for name, list := range map[string][]checkpoint.Tensor{
		"duplicate": {u8("a", 1), u8("a", 1)},
		"reserved":  {u8("__metadata__", 1)},
		"not UTF-8": {u8("\xff", 1)},
		"too small": {u8("a", 2)},
		"negative":  {u8("a", -1)},
		"overflow":  {u8("a", math.MaxInt/2+1, 4)},
		"dtype":     {{Name: "a", Stored: "X", Shape: []int{1}, Data: []byte{1}}},
		"no dtype":  {{Name: "a", Shape: []int{1}, Data: []byte{1}}},
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		require.ErrorIs(t, checkpoint.WriteFile(path, list, nil), checkpoint.ErrFormat, name)
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist, name)
	}
	for _, metadata := range []map[string]string{{"\xff": "a"}, {"a": "\xff"}} {
		require.ErrorIs(t, checkpoint.Write(&bytes.Buffer{}, nil, metadata), checkpoint.ErrFormat)
	}
}

func TestOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	a := checkpoint.Tensor{Name: "a", DType: array.Float32, Shape: []int{2, 2}, Data: array.Bytes([]float32{1, 2, 3, 4})}
	require.NoError(t, checkpoint.WriteFile(path, []checkpoint.Tensor{a}, nil))
	f, err := checkpoint.OpenFile(path)
	require.NoError(t, err)
	got, _ := f.Tensor("a")
	values, err := got.Floats()
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3, 4}, values)
	require.Equal(t, []int{2, 2}, got.Shape)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())

	_, err = checkpoint.OpenFile(path + ".not")
	require.ErrorIs(t, err, checkpoint.ErrMissing)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = checkpoint.OpenFile(filepath.Dir(path))
	require.ErrorIs(t, err, checkpoint.ErrFormat)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = checkpoint.OpenFile(path)
	require.ErrorIs(t, err, checkpoint.ErrFormat)
}

// FuzzSafetensors: any bytes are refused with a FormatError, or give tensors
// that cover the data exactly and can be written again.
func FuzzSafetensors(f *testing.F) {
	f.Add(raw(`{}`, 0))
	f.Add(raw(`{"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4))
	f.Add(raw(`{"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[1,5]},"b":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]},"__metadata__":{"x":"y"}} `, 5))
	f.Add(raw(`{"t":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},"u":{"dtype":"F32","shape":[0],"data_offsets":[2,2]}}`, 2))
	f.Add(raw(`{"t":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := checkpoint.Parse("fuzz", data)
		if err != nil {
			var e *checkpoint.FormatError
			require.ErrorAs(t, err, &e)
			return
		}
		n := 8 + int(binary.LittleEndian.Uint64(data))
		var list []checkpoint.Tensor
		for _, name := range file.Names() {
			tensor, _ := file.Tensor(name)
			n += len(tensor.Data)
			list = append(list, tensor)
			if a, err := tensor.Array(); err == nil {
				require.Len(t, a.Data, tensor.DType.Size()*tensor.Size())
			}
		}
		require.Len(t, data, n)
		require.NoError(t, checkpoint.Write(&bytes.Buffer{}, list, file.Metadata()))
	})
}
