package kompute

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// describedRegion captures a transposed sum of which only the negative is kept.
func describedRegion(t *testing.T, d *Device) *RegionDescription {
	s := newStream(t, d)
	x, y := tensor(t, d, upTo(6), 2, 3), tensor(t, d, upTo(6), 3, 2)
	r := captureTest(t, s, func(s *Stream) {
		closing(t, Result(s, run(s, "neg", run(s, "add", x, closing(t, y.Transpose())))))
	})
	out, err := r.Describe()
	require.NoError(t, err)
	return out
}

// The statistics count the barriers that the description marks.
func TestBarriersAreThoseDescribed(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(6), 6)
		r := captureTest(t, s, func(s *Stream) {
			closing(t, Result(s, run(s, "neg", run(s, "add", run(s, "neg", x), x))))
		})
		described, err := r.Describe()
		require.NoError(t, err)
		var marked uint64
		for _, one := range described.Dispatches {
			if one.Barrier {
				marked++
			}
		}
		counted := r.Stats().Barriers
		if d.Backend() == "cpu" {
			require.EqualValues(t, 2, marked)
			require.Equal(t, marked, counted)
		} else { // before the region, and after it where the host reads
			require.Contains(t, []uint64{marked + 1, marked + 2}, counted)
		}
		before := s.Stats().Barriers
		for range 3 {
			require.NoError(t, r.Replay(t.Context()))
		}
		require.NoError(t, s.Synchronize(t.Context()))
		require.Equal(t, 3*counted, s.Stats().Barriers-before)
	})
}

// Both backends describe ops with operands, dispatches and memory alike.
func TestDescribe(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		r := describedRegion(t, d)
		require.EqualValues(t, 2, r.CapturedOps)
		require.Len(t, r.Ops, 2)
		sum, neg := r.Ops[0], r.Ops[1]
		require.Len(t, sum.Operands, 3)
		for i, want := range []struct {
			access  Access
			strides []int
			kind    RegionTensorKind
		}{
			{AccessRead, []int{3, 1}, RegionTensorExternal},
			{AccessRead, []int{1, 2}, RegionTensorExternal},
			{AccessWrite, []int{3, 1}, RegionTensorPlanned},
		} {
			got := sum.Operands[i]
			require.Equal(t, i, got.Index)
			require.Equal(t, want.access, got.Access)
			require.Equal(t, array.Float32, got.DType)
			require.Equal(t, []int{2, 3}, got.Shape)
			require.Equal(t, want.strides, got.Strides)
			require.Zero(t, got.Offset)
			require.Equal(t, want.kind, r.Memory.Tensors[got.Tensor].Kind)
		}
		require.Equal(t, sum.Operands[2].Tensor, neg.Operands[0].Tensor, "neg reads what add wrote")
		require.Len(t, r.Dispatches, 2)
		require.Equal(t, []int{0, 1}, []int{r.Dispatches[0].OpIndex, r.Dispatches[1].OpIndex})
		require.Equal(t, []int{0, 1}, r.Phases())
		require.Len(t, r.Dispatches[1].Reads, 1)
		require.Equal(t, RegionUse{Tensor: sum.Operands[2].Tensor, Bytes: 24}, r.Dispatches[1].Reads[0])
		planned := r.Memory.Tensors[sum.Operands[2].Tensor]
		require.Equal(t, []int{0, 1}, []int{planned.First, planned.Last})
		require.GreaterOrEqual(t, r.Memory.Arenas[planned.Arena], planned.Offset+planned.Bytes)
		require.GreaterOrEqual(t, planned.Bytes, int64(24))
		require.GreaterOrEqual(t, r.Memory.TransientBytes, planned.Bytes)
	})
}

// A description survives being written and read as JSON, and its keys are in
// snake case.
func TestDescriptionAsJSON(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		r := describedRegion(t, d)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		back, err := parseDescription(text)
		require.NoError(t, err)
		require.Equal(t, r, back)
		require.NotContains(t, string(text), "null")
		keys := regexp.MustCompile(`"([^"]+)":`).FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, keys)
		for _, key := range keys {
			require.Regexp(t, `^[a-z_]+$`, key[1])
		}
	})
}

func TestDescriptionAsText(t *testing.T) {
	d := openTest(t, "cpu")
	text := describedRegion(t, d).String()
	require.Contains(t, text, "region of 2 ops, 2 after fusion: 2 dispatches in 2 phases")
	require.Contains(t, text, "  binary\n")
	require.Contains(t, text, "    read       float32[2 3] strides [1 2] of external#1\n")
	require.Contains(t, text, "    write      float32[2 3] of planned#2\n")
	require.Contains(t, text, "    -- barrier --\n    unary [1 1 1] reads planned#2[0+24] writes ")
}

func TestOperandsAsText(t *testing.T) {
	for want, o := range map[string]RegionOperand{
		"float32[3 0]":             {DType: DTypeFloat32, Shape: []int{3, 0}, Strides: []int{1, 1}},
		"bool[2 3] offset 4":       {DType: DTypeBool, Shape: []int{2, 3}, Strides: []int{3, 1}, Offset: 4},
		"uint8[2 3] strides [1 2]": {DType: DTypeUint8, Shape: []int{2, 3}, Strides: []int{1, 2}},
	} {
		require.Equal(t, want, o.String())
	}
}

func TestNativeDescriptionsAreChecked(t *testing.T) {
	for _, text := range []string{
		"", "[]", `{"ops": [{"operands": [{"dtype": "float99"}]}]}`, `{"ops": [{"operands": [{"access": "seldom"}]}]}`,
		`{"ops": [], "dispatches": [{"op": 0}]}`, `{"ops": [{}], "dispatches": [{"op": -1}]}`,
	} {
		_, err := parseDescription([]byte(text))
		require.ErrorIs(t, err, ErrInternal, text)
	}
	_, err := Access(9).MarshalText()
	require.ErrorIs(t, err, ErrInvalid)
}
