package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

type errorer interface{ Err() error }

// nilCalls calls every op with nil for all of its tensors.
func nilCalls(s *kompute.Stream) map[string]errorer {
	var x *kompute.Tensor[float32]
	var i *kompute.Tensor[int32]
	var u *kompute.Tensor[uint32]
	var b *kompute.Tensor[bool]
	var u8 *kompute.Tensor[uint8]
	q := ops.Quantization{GroupSize: 64, Bits: 4}
	words, _, _ := ops.Quantize[float32](s, x, q)
	_, scales, _ := ops.Quantize[uint8](s, x, ops.MXFP4)
	_, _, biases := ops.Quantize[float32](s, x, q)
	calls := map[string]errorer{
		"Cast": ops.Cast[int32](s, x), "Concat": ops.Concat(s, 0, x, x), "ConcatNone": ops.Concat[float32](s, 0),
		"Stack": ops.Stack(s, -1, x, x), "StackNone": ops.Stack[float32](s, 3), "Copy": ops.Copy(s, x),
		"Dequantize":      ops.Dequantize[float32](s, u, x, x, q),
		"DequantizeMXFP4": ops.Dequantize[float32](s, u, u8, u8, ops.MXFP4),
		"Gather":          ops.Gather(s, x, i, 0), "TakeAlongAxis": ops.TakeAlongAxis(s, x, u, -1),
		"LayerNorm": ops.LayerNorm(s, x, x, x, 0), "RMSNorm": ops.RMSNorm(s, x, x, 0), "MatMul": ops.MatMul(s, x, x),
		"PagedSDPA": ops.PagedSDPA(s, x, x, x, ops.PagedSDPAParams{}), "PagedUpdate": ops.PagedUpdate(s, x, x, i),
		"Penalize": ops.Penalize(s, x, u, x, i), "Tally": ops.Tally(s, u, i, u, u), "Mask": ops.Mask(s, x, u),
		"Pad": ops.Pad(s, x, 0, [2]int{1, 1}), "PadEdge": ops.PadEdge(s, x),
		"Quantize": words, "Quantize scales": scales, "Quantize biases": biases,
		"QuantizedGather": ops.QuantizedGather[float32](s, u, x, x, i, q),
		"QuantizedMatMul": ops.QuantizedMatMul(s, x, u, x, x, q, ops.Transposed),
		"Uniform":         ops.Uniform[float32](s, u, 0, 1, 2), "Normal": ops.Normal[float32](s, u, 0, 1, 2),
		"Categorical": ops.Categorical(s, x, u), "Sample": ops.Sample(s, x, u, ops.AtDevice(i)),
		"Repeat": ops.Repeat(s, x, 2, 0), "Tile": ops.Tile(s, x, 2, 2), "TileNone": ops.Tile(s, x),
		"RoPE": ops.RoPE(s, x, ops.RoPEParams{}, ops.AtDevice(nil)), "SDPA": ops.SDPA(s, x, x, x, ops.SDPAParams[float32]{}),
		"Scatter": ops.Scatter(s, x, i, x, 0, ops.ScatterAdd), "PutAlongAxis": ops.PutAlongAxis(s, x, i, x, 0, ops.ScatterSet),
		"SiLUMul": ops.SiLUMul(s, x, x), "Slice": ops.Slice(s, x, nil), "SliceAt": ops.Slice(s, x, []int{1}, ops.AtDevice(nil)),
		"SliceUpdate": ops.SliceUpdate(s, x, x), "SliceUpdateAt": ops.SliceUpdate(s, x, x, ops.AtDevice(nil)),
		"Softmax": ops.Softmax(s, x), "Where": ops.Where(s, b, x, x), "ArgMax": ops.ArgMax(s, x, 0), "Greedy": ops.Greedy(s, x),
		"ArgMin": ops.ArgMin(s, x, -1, ops.Axes(0)), "ReduceAs": ops.ReduceAs[int32](s, ops.ReduceSum, b),
		"ReduceAs unknown": ops.ReduceAs[int32](s, 99, b), "ReduceAs type": ops.ReduceAs[float32](s, ops.ReduceProd, b),
		"CumSum": ops.CumSum(s, x, 0, ops.Reverse()), "CumProd": ops.CumProd(s, i, -1, ops.Exclusive()),
		"LogSumExp": ops.LogSumExp(s, x, ops.Axes(0), ops.KeepDims()), "All": ops.All(s, x), "Any": ops.Any(s, b),
		"Shift": ops.ShiftLeft(s, i, i), "BitAnd": ops.BitAnd(s, b, b), "Equal": ops.Equal(s, b, b), "Not": ops.Not(s, b),
	}
	for name, op := range map[string]func(*kompute.Stream, *kompute.Tensor[float32], *kompute.Tensor[float32]) *kompute.Tensor[float32]{
		"Add": ops.Add[float32], "Sub": ops.Sub[float32], "Mul": ops.Mul[float32], "Div": ops.Div[float32],
		"Max": ops.Max[float32], "Min": ops.Min[float32], "Pow": ops.Pow[float32], "Mod": ops.Mod[float32],
	} {
		calls[name] = op(s, x, x)
	}
	for name, op := range map[string]func(*kompute.Stream, *kompute.Tensor[float32], ...ops.ReduceOption) *kompute.Tensor[float32]{
		"Sum": ops.Sum[float32], "Mean": ops.Mean[float32], "Prod": ops.Prod[float32], "AMax": ops.AMax[float32], "AMin": ops.AMin[float32],
	} {
		calls[name] = op(s, x, ops.Axes(0))
	}
	for name, op := range map[string]func(*kompute.Stream, *kompute.Tensor[float32]) *kompute.Tensor[float32]{
		"Neg": ops.Neg[float32], "Exp": ops.Exp[float32], "Sin": ops.Sin[float32], "Round": ops.Round[float32],
	} {
		calls[name] = op(s, x)
	}
	return calls
}

// Every op rejects nil tensors, on a stream and on a nil stream.
func TestNilTensors(t *testing.T) {
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer dev.Close()
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	for _, stream := range []*kompute.Stream{s, nil} {
		for name, result := range nilCalls(stream) {
			var op *kompute.OpError
			require.ErrorAs(t, result.Err(), &op, name)
			require.ErrorIs(t, op, kompute.ErrInvalid, name)
			require.NotEmpty(t, op.Op, name)
		}
	}
	for name, result := range map[string]*kompute.Tensor[float32]{
		"add": ops.Add[float32](nil, nil, nil), "neg": ops.Neg[float32](nil, nil), "sum": ops.Sum[float32](nil, nil),
		"repeat": ops.Repeat[float32](nil, nil, 2, 0), "cum_sum": ops.CumSum[float32](nil, nil, 0),
	} {
		require.ErrorContains(t, result.Err(), name+": the stream is nil")
	}
	// A nil like tells ScalarLike its type, and no more.
	require.NoError(t, ops.ScalarLike[float32](mustStream(t, dev), nil, 2).Err())
}

func mustStream(t *testing.T, dev *kompute.Device) *kompute.Stream {
	s, err := dev.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A device that was opened twice is two devices, although their names are the same.
func TestOperandOfADeviceOpenedTwice(t *testing.T) {
	var devices [2]*kompute.Device
	for i := range devices {
		d, err := kompute.Open("cpu")
		require.NoError(t, err)
		defer d.Close()
		devices[i] = d
	}
	x, err := kompute.New(devices[0], []float32{1})
	require.NoError(t, err)
	err = ops.Neg(mustStream(t, devices[1]), x).Err()
	require.ErrorIs(t, err, kompute.ErrDevice)
	require.ErrorContains(t, err, "which was opened twice")
}
