// Code generated from csrc/ops/ops.def by go generate ./internal/opdef; DO NOT EDIT.

package opdef

// The maximum number of axes of a tensor.
const MaxRank = 8

// Length of the state that random ops draw from: a seed and a counter, of two uint32 each, the low one first.
const RandomStateSize = 4

// Length of the parameters of sample, in uint32.
const SampleParamsSize = 9

// Pages of keys or values may be uint8: then a head of D elements, a multiple of 4, is D codes followed by a float32
// scale for each CACHE_GROUP of them. An element is (code - CACHE_ZERO) * scale.
const CacheGroup = 32

const CacheZero = 128

// The bit of a count that says that the token is in the prompt. Those below count how often it is in the answer.
const InPromptBit = 31

// DType is one of the kinds below.
type DType uint32

// The element types. Bool is one byte, 0 or 1.
const (
	Float32  DType = 1
	Float16  DType = 2
	BFloat16 DType = 3
	Int32    DType = 4
	Uint32   DType = 5
	Bool     DType = 6
	Uint8    DType = 7
)

// NumDTypes is how many numbers there are up to the last DType.
const NumDTypes = 8

var dTypeNames = [NumDTypes]string{Float32: "float32", Float16: "float16", BFloat16: "bfloat16", Int32: "int32", Uint32: "uint32", Bool: "bool", Uint8: "uint8"}

// String returns the name in csrc/ops/ops.def.
func (k DType) String() string { return nameOf(dTypeNames[:], uint32(k)) }

// BinaryKind is one of the kinds below.
type BinaryKind uint32

// The kinds of the binary op.
const (
	BinaryAdd          BinaryKind = 0
	BinarySub          BinaryKind = 1
	BinaryMul          BinaryKind = 2
	BinaryDiv          BinaryKind = 3
	BinaryMax          BinaryKind = 4
	BinaryMin          BinaryKind = 5
	BinaryPow          BinaryKind = 6
	BinaryMod          BinaryKind = 7
	BinaryEqual        BinaryKind = 8
	BinaryNotEqual     BinaryKind = 9
	BinaryLess         BinaryKind = 10
	BinaryLessEqual    BinaryKind = 11
	BinaryGreater      BinaryKind = 12
	BinaryGreaterEqual BinaryKind = 13
	BinaryAnd          BinaryKind = 14
	BinaryOr           BinaryKind = 15
	BinaryBitAnd       BinaryKind = 16
	BinaryBitOr        BinaryKind = 17
	BinaryBitXor       BinaryKind = 18
	BinaryShiftLeft    BinaryKind = 19
	BinaryShiftRight   BinaryKind = 20
)

// NumBinaryKinds is how many numbers there are up to the last BinaryKind.
const NumBinaryKinds = 21

var binaryKindNames = [NumBinaryKinds]string{BinaryAdd: "add", BinarySub: "sub", BinaryMul: "mul", BinaryDiv: "div", BinaryMax: "max", BinaryMin: "min", BinaryPow: "pow", BinaryMod: "mod", BinaryEqual: "equal", BinaryNotEqual: "not_equal", BinaryLess: "less", BinaryLessEqual: "less_equal", BinaryGreater: "greater", BinaryGreaterEqual: "greater_equal", BinaryAnd: "and", BinaryOr: "or", BinaryBitAnd: "bit_and", BinaryBitOr: "bit_or", BinaryBitXor: "bit_xor", BinaryShiftLeft: "shift_left", BinaryShiftRight: "shift_right"}

// String returns the name in csrc/ops/ops.def.
func (k BinaryKind) String() string { return nameOf(binaryKindNames[:], uint32(k)) }

// UnaryKind is one of the kinds below.
type UnaryKind uint32

// The kinds of the unary op.
const (
	UnaryNeg     UnaryKind = 0
	UnaryAbs     UnaryKind = 1
	UnaryExp     UnaryKind = 2
	UnaryLog     UnaryKind = 3
	UnarySqrt    UnaryKind = 4
	UnaryRsqrt   UnaryKind = 5
	UnarySin     UnaryKind = 6
	UnaryCos     UnaryKind = 7
	UnaryTanh    UnaryKind = 8
	UnarySigmoid UnaryKind = 9
	UnarySiLU    UnaryKind = 10
	UnaryGELU    UnaryKind = 11
	UnaryErf     UnaryKind = 12
	UnarySquare  UnaryKind = 13
	UnaryFloor   UnaryKind = 14
	UnaryCeil    UnaryKind = 15
	UnaryRound   UnaryKind = 16
	UnaryNot     UnaryKind = 17
)

// NumUnaryKinds is how many numbers there are up to the last UnaryKind.
const NumUnaryKinds = 18

var unaryKindNames = [NumUnaryKinds]string{UnaryNeg: "neg", UnaryAbs: "abs", UnaryExp: "exp", UnaryLog: "log", UnarySqrt: "sqrt", UnaryRsqrt: "rsqrt", UnarySin: "sin", UnaryCos: "cos", UnaryTanh: "tanh", UnarySigmoid: "sigmoid", UnarySiLU: "silu", UnaryGELU: "gelu", UnaryErf: "erf", UnarySquare: "square", UnaryFloor: "floor", UnaryCeil: "ceil", UnaryRound: "round", UnaryNot: "not"}

// String returns the name in csrc/ops/ops.def.
func (k UnaryKind) String() string { return nameOf(unaryKindNames[:], uint32(k)) }

// ReduceKind is one of the kinds below.
type ReduceKind uint32

// The kinds of the reduce op.
const (
	ReduceSum       ReduceKind = 0
	ReduceMean      ReduceKind = 1
	ReduceAMax      ReduceKind = 2
	ReduceAMin      ReduceKind = 3
	ReduceProd      ReduceKind = 4
	ReduceAll       ReduceKind = 5
	ReduceAny       ReduceKind = 6
	ReduceArgMax    ReduceKind = 7
	ReduceArgMin    ReduceKind = 8
	ReduceLogSumExp ReduceKind = 9
	ReduceGreedy    ReduceKind = 10
)

// NumReduceKinds is how many numbers there are up to the last ReduceKind.
const NumReduceKinds = 11

var reduceKindNames = [NumReduceKinds]string{ReduceSum: "sum", ReduceMean: "mean", ReduceAMax: "amax", ReduceAMin: "amin", ReduceProd: "prod", ReduceAll: "all", ReduceAny: "any", ReduceArgMax: "arg_max", ReduceArgMin: "arg_min", ReduceLogSumExp: "log_sum_exp", ReduceGreedy: "greedy"}

// String returns the name in csrc/ops/ops.def.
func (k ReduceKind) String() string { return nameOf(reduceKindNames[:], uint32(k)) }

// ScanKind is one of the kinds below.
type ScanKind uint32

// The kinds of the scan op.
const (
	ScanSum  ScanKind = 0
	ScanProd ScanKind = 1
)

// NumScanKinds is how many numbers there are up to the last ScanKind.
const NumScanKinds = 2

var scanKindNames = [NumScanKinds]string{ScanSum: "sum", ScanProd: "prod"}

// String returns the name in csrc/ops/ops.def.
func (k ScanKind) String() string { return nameOf(scanKindNames[:], uint32(k)) }

// ScatterMode is one of the kinds below.
type ScatterMode uint32

// How scatter combines the updates of a place with its element: the last update replaces it, or all are combined.
const (
	ScatterSet ScatterMode = 0
	ScatterAdd ScatterMode = 1
	ScatterMul ScatterMode = 2
	ScatterMin ScatterMode = 3
	ScatterMax ScatterMode = 4
)

// NumScatterModes is how many numbers there are up to the last ScatterMode.
const NumScatterModes = 5

var scatterModeNames = [NumScatterModes]string{ScatterSet: "set", ScatterAdd: "add", ScatterMul: "mul", ScatterMin: "min", ScatterMax: "max"}

// String returns the name in csrc/ops/ops.def.
func (k ScatterMode) String() string { return nameOf(scatterModeNames[:], uint32(k)) }

// Mode is one of the kinds below.
type Mode uint32

// MLX's quantization modes. All but the first have no biases.
const (
	ModeAffine Mode = 0
	ModeMXFP4  Mode = 1
	ModeNVFP4  Mode = 2
	ModeMXFP8  Mode = 3
)

// NumModes is how many numbers there are up to the last Mode.
const NumModes = 4

var modeNames = [NumModes]string{ModeAffine: "affine", ModeMXFP4: "mxfp4", ModeNVFP4: "nvfp4", ModeMXFP8: "mxfp8"}

// String returns the name in csrc/ops/ops.def.
func (k Mode) String() string { return nameOf(modeNames[:], uint32(k)) }

// RandomKind is one of the kinds below.
type RandomKind uint32

// The kinds of the random op.
const (
	RandomUniform RandomKind = 0
	RandomNormal  RandomKind = 1
)

// NumRandomKinds is how many numbers there are up to the last RandomKind.
const NumRandomKinds = 2

var randomKindNames = [NumRandomKinds]string{RandomUniform: "uniform", RandomNormal: "normal"}

// String returns the name in csrc/ops/ops.def.
func (k RandomKind) String() string { return nameOf(randomKindNames[:], uint32(k)) }

// PhiloxUse is one of the kinds below.
type PhiloxUse uint32

// The last word of a Philox counter, by the op that draws; random adds its kind.
const (
	PhiloxSample PhiloxUse = 0
	PhiloxRandom PhiloxUse = 1
)

// NumPhiloxUses is how many numbers there are up to the last PhiloxUse.
const NumPhiloxUses = 2

var philoxUseNames = [NumPhiloxUses]string{PhiloxSample: "sample", PhiloxRandom: "random"}

// String returns the name in csrc/ops/ops.def.
func (k PhiloxUse) String() string { return nameOf(philoxUseNames[:], uint32(k)) }

// SampleParam is one of the kinds below.
type SampleParam uint32

// Where the parameters of sample are: scale and exponent of log2(e)/temperature, what the filters keep, and seed and
// first draw, of two uint32 each.
const (
	SampleScale    SampleParam = 0
	SampleExponent SampleParam = 1
	SampleTopK     SampleParam = 2
	SampleTopP     SampleParam = 3
	SampleMinP     SampleParam = 4
	SampleSeed     SampleParam = 5
	SampleCounter  SampleParam = 7
)

// NumSampleParams is how many numbers there are up to the last SampleParam.
const NumSampleParams = 8

var sampleParamNames = [NumSampleParams]string{SampleScale: "scale", SampleExponent: "exponent", SampleTopK: "top_k", SampleTopP: "top_p", SampleMinP: "min_p", SampleSeed: "seed", SampleCounter: "counter"}

// String returns the name in csrc/ops/ops.def.
func (k SampleParam) String() string { return nameOf(sampleParamNames[:], uint32(k)) }

// PenaltyParam is one of the kinds below.
type PenaltyParam uint32

// A row of penalties: the factors of positive and of other logits of tokens that are there already, what is subtracted
// from those of tokens of the answer, and what is subtracted for each time that they are in it.
const (
	PenaltyPositive  PenaltyParam = 0
	PenaltyOther     PenaltyParam = 1
	PenaltyPresence  PenaltyParam = 2
	PenaltyFrequency PenaltyParam = 3
)

// NumPenaltyParams is how many numbers there are up to the last PenaltyParam.
const NumPenaltyParams = 4

var penaltyParamNames = [NumPenaltyParams]string{PenaltyPositive: "positive", PenaltyOther: "other", PenaltyPresence: "presence", PenaltyFrequency: "frequency"}

// String returns the name in csrc/ops/ops.def.
func (k PenaltyParam) String() string { return nameOf(penaltyParamNames[:], uint32(k)) }

// ProjectionEpilogue is one of the kinds below.
type ProjectionEpilogue uint32

// What the projection op does with its products.
const (
	ProjectionStore    ProjectionEpilogue = 0
	ProjectionResidual ProjectionEpilogue = 1
	ProjectionSiLUMul  ProjectionEpilogue = 2
	ProjectionArgMax   ProjectionEpilogue = 3
	ProjectionGreedy   ProjectionEpilogue = 4
)

// NumProjectionEpilogues is how many numbers there are up to the last ProjectionEpilogue.
const NumProjectionEpilogues = 5

var projectionEpilogueNames = [NumProjectionEpilogues]string{ProjectionStore: "store", ProjectionResidual: "residual", ProjectionSiLUMul: "silu_mul", ProjectionArgMax: "arg_max", ProjectionGreedy: "greedy"}

// String returns the name in csrc/ops/ops.def.
func (k ProjectionEpilogue) String() string { return nameOf(projectionEpilogueNames[:], uint32(k)) }

// FusedOps are the ops that only passes over the graph make.
var FusedOps = []string{"attention_projection", "attention_step", "paged_heads", "paged_step", "projection", "qkv_heads"}

// Ops lists the other ops.
var Ops = []*Op{&Arange.Op, &Binary.Op, &Cast.Op, &Concat.Op, &Copy.Op, &Dequantize.Op, &Fill.Op, &Gather.Op, &GatherAxis.Op, &LayerNorm.Op, &Mask.Op, &MatMul.Op, &Pad.Op, &PagedSDPA.Op, &PagedUpdate.Op, &Penalize.Op, &Quantize.Op, &QuantizedGather.Op, &QuantizedMatMul.Op, &Random.Op, &Reduce.Op, &RMSNorm.Op, &RoPE.Op, &Sample.Op, &Scan.Op, &Scatter.Op, &SDPA.Op, &SiLUMul.Op, &Slice.Op, &SliceUpdate.Op, &Softmax.Op, &Tally.Op, &Unary.Op, &Where.Op}

// ArangeParams are the parameters of arange.
type ArangeParams struct {
	Start uint32
	Step  uint32
}

// Arange is the op arange and its operands.
//
// out is a vector of any dtype except bool. out[i] = start + i * step: for floats in float32, whose bits start and step
// are; for integers wrapping around.
var Arange = struct {
	Op
	Out Operand
}{
	Op: Op{Name: "arange", Operands: []Operand{
		{Index: 0, Name: "out", Access: Write, Optional: false},
	}},
	Out: Operand{Index: 0, Name: "out", Access: Write, Optional: false},
}

// AttentionProjectionParams are the parameters of attention_projection.
type AttentionProjectionParams struct {
	Step       AttentionStepParams
	Projection ProjectionParams
}

// AttentionProjection is the op attention_projection and its operands.
//
// Attention of one new token, as in attention_step, then the product of its result and one matrix: a projection without
// a norm.
var AttentionProjection = struct {
	Op
	Q, K, V, QGain, KGain, Position, Start, KeyLength, Freqs, Keys, Values, Residual, W, Scales, Biases, Out Operand
}{
	Op: Op{Name: "attention_projection", Operands: []Operand{
		{Index: 0, Name: "q", Access: Read, Optional: false},
		{Index: 1, Name: "k", Access: Read, Optional: false},
		{Index: 2, Name: "v", Access: Read, Optional: false},
		{Index: 3, Name: "q_gain", Access: Read, Optional: true},
		{Index: 4, Name: "k_gain", Access: Read, Optional: true},
		{Index: 5, Name: "position", Access: Read, Optional: true},
		{Index: 6, Name: "start", Access: Read, Optional: true},
		{Index: 7, Name: "key_length", Access: Read, Optional: true},
		{Index: 8, Name: "freqs", Access: Read, Optional: true},
		{Index: 9, Name: "keys", Access: Update, Optional: false},
		{Index: 10, Name: "values", Access: Update, Optional: false},
		{Index: 11, Name: "residual", Access: Read, Optional: true},
		{Index: 12, Name: "w", Access: Read, Optional: false},
		{Index: 13, Name: "scales", Access: Read, Optional: false},
		{Index: 14, Name: "biases", Access: Read, Optional: true},
		{Index: 15, Name: "out", Access: Write, Optional: false},
	}},
	Q:         Operand{Index: 0, Name: "q", Access: Read, Optional: false},
	K:         Operand{Index: 1, Name: "k", Access: Read, Optional: false},
	V:         Operand{Index: 2, Name: "v", Access: Read, Optional: false},
	QGain:     Operand{Index: 3, Name: "q_gain", Access: Read, Optional: true},
	KGain:     Operand{Index: 4, Name: "k_gain", Access: Read, Optional: true},
	Position:  Operand{Index: 5, Name: "position", Access: Read, Optional: true},
	Start:     Operand{Index: 6, Name: "start", Access: Read, Optional: true},
	KeyLength: Operand{Index: 7, Name: "key_length", Access: Read, Optional: true},
	Freqs:     Operand{Index: 8, Name: "freqs", Access: Read, Optional: true},
	Keys:      Operand{Index: 9, Name: "keys", Access: Update, Optional: false},
	Values:    Operand{Index: 10, Name: "values", Access: Update, Optional: false},
	Residual:  Operand{Index: 11, Name: "residual", Access: Read, Optional: true},
	W:         Operand{Index: 12, Name: "w", Access: Read, Optional: false},
	Scales:    Operand{Index: 13, Name: "scales", Access: Read, Optional: false},
	Biases:    Operand{Index: 14, Name: "biases", Access: Read, Optional: true},
	Out:       Operand{Index: 15, Name: "out", Access: Write, Optional: false},
}

// AttentionStepParams are the parameters of attention_step.
type AttentionStepParams struct {
	// Whether there is a norm of q, and of k.
	QNorm       uint32
	KNorm       uint32
	QEps        float32
	KEps        float32
	Dims        uint32
	Traditional uint32
	Base        float32
	RopeScale   float32
	Position    int32
	Start       int32
	// The number of keys of the cache that may exist: the length, or the maximum of key_length.
	Keys uint32
	// The factor of scores.
	Scale float32
}

// AttentionStep is the op attention_step and its operands.
//
// q [Hq, D], k, v [Hkv, D] (of one new token), gains [D], position int32 [1], start int32 [4], key_length int32 [1],
// freqs float32 [dims/2], keys, values [1, Hkv, capacity, D], out [Hq, D]. Does what rms_norm and rope of q and k,
// slice_update of keys and values, and sdpa do one after another. position and start of the struct apply if these
// arrays are absent; dims 0 means no rotation.
var AttentionStep = struct {
	Op
	Q, K, V, QGain, KGain, Position, Start, KeyLength, Freqs, Keys, Values, Out Operand
}{
	Op: Op{Name: "attention_step", Operands: []Operand{
		{Index: 0, Name: "q", Access: Read, Optional: false},
		{Index: 1, Name: "k", Access: Read, Optional: false},
		{Index: 2, Name: "v", Access: Read, Optional: false},
		{Index: 3, Name: "q_gain", Access: Read, Optional: true},
		{Index: 4, Name: "k_gain", Access: Read, Optional: true},
		{Index: 5, Name: "position", Access: Read, Optional: true},
		{Index: 6, Name: "start", Access: Read, Optional: true},
		{Index: 7, Name: "key_length", Access: Read, Optional: true},
		{Index: 8, Name: "freqs", Access: Read, Optional: true},
		{Index: 9, Name: "keys", Access: Update, Optional: false},
		{Index: 10, Name: "values", Access: Update, Optional: false},
		{Index: 11, Name: "out", Access: Write, Optional: false},
	}},
	Q:         Operand{Index: 0, Name: "q", Access: Read, Optional: false},
	K:         Operand{Index: 1, Name: "k", Access: Read, Optional: false},
	V:         Operand{Index: 2, Name: "v", Access: Read, Optional: false},
	QGain:     Operand{Index: 3, Name: "q_gain", Access: Read, Optional: true},
	KGain:     Operand{Index: 4, Name: "k_gain", Access: Read, Optional: true},
	Position:  Operand{Index: 5, Name: "position", Access: Read, Optional: true},
	Start:     Operand{Index: 6, Name: "start", Access: Read, Optional: true},
	KeyLength: Operand{Index: 7, Name: "key_length", Access: Read, Optional: true},
	Freqs:     Operand{Index: 8, Name: "freqs", Access: Read, Optional: true},
	Keys:      Operand{Index: 9, Name: "keys", Access: Update, Optional: false},
	Values:    Operand{Index: 10, Name: "values", Access: Update, Optional: false},
	Out:       Operand{Index: 11, Name: "out", Access: Write, Optional: false},
}

// BinaryParams are the parameters of binary.
type BinaryParams struct {
	Kind BinaryKind
}

// Binary is the op binary and its operands.
//
// All of one shape (the caller broadcasts); a and b of one dtype; out the same, or bool for comparisons and logic.
var Binary = struct {
	Op
	A, B, Out Operand
}{
	Op: Op{Name: "binary", Operands: []Operand{
		{Index: 0, Name: "a", Access: Read, Optional: false},
		{Index: 1, Name: "b", Access: Read, Optional: false},
		{Index: 2, Name: "out", Access: Write, Optional: false},
	}},
	A:   Operand{Index: 0, Name: "a", Access: Read, Optional: false},
	B:   Operand{Index: 1, Name: "b", Access: Read, Optional: false},
	Out: Operand{Index: 2, Name: "out", Access: Write, Optional: false},
}

// CastParams are the parameters of cast.
type CastParams struct {
	Reserved uint32
}

// Cast is the op cast and its operands.
//
// One shape, any layouts and dtypes.
var Cast = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "cast", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// ConcatParams are the parameters of concat.
type ConcatParams struct {
	Axis uint32
}

// Concat is the op concat and its operands.
//
// One dtype and, except along axis, one shape; out's axis is as long as theirs together.
var Concat = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "concat", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// CopyParams are the parameters of copy.
type CopyParams struct {
	Reserved uint32
}

// Copy is the op copy and its operands.
//
// One shape and dtype, any layouts.
var Copy = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "copy", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// DequantizeParams are the parameters of dequantize.
type DequantizeParams struct {
	GroupSize uint32
	Bits      uint32
	Mode      Mode
}

// Dequantize is the op dequantize and its operands.
//
// w uint32 [..., K*bits/32], scales, biases [..., K/group_size], out [..., K].
var Dequantize = struct {
	Op
	W, Scales, Biases, Out Operand
}{
	Op: Op{Name: "dequantize", Operands: []Operand{
		{Index: 0, Name: "w", Access: Read, Optional: false},
		{Index: 1, Name: "scales", Access: Read, Optional: false},
		{Index: 2, Name: "biases", Access: Read, Optional: true},
		{Index: 3, Name: "out", Access: Write, Optional: false},
	}},
	W:      Operand{Index: 0, Name: "w", Access: Read, Optional: false},
	Scales: Operand{Index: 1, Name: "scales", Access: Read, Optional: false},
	Biases: Operand{Index: 2, Name: "biases", Access: Read, Optional: true},
	Out:    Operand{Index: 3, Name: "out", Access: Write, Optional: false},
}

// FillParams are the parameters of fill.
type FillParams struct {
	Bits uint32
}

// Fill is the op fill and its operands.
//
// Every element of out, of any dtype, gets the low bits of `bits`.
var Fill = struct {
	Op
	Out Operand
}{
	Op: Op{Name: "fill", Operands: []Operand{
		{Index: 0, Name: "out", Access: Write, Optional: false},
	}},
	Out: Operand{Index: 0, Name: "out", Access: Write, Optional: false},
}

// GatherParams are the parameters of gather.
type GatherParams struct {
	Axis uint32
}

// Gather is the op gather and its operands.
//
// x [pre…, V, post…], indices (int32 or uint32), out [pre…, indices…, post…]. axis is V's. A negative index counts from
// the end; one out of range gives zeros.
var Gather = struct {
	Op
	X, Indices, Out Operand
}{
	Op: Op{Name: "gather", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "indices", Access: Read, Optional: false},
		{Index: 2, Name: "out", Access: Write, Optional: false},
	}},
	X:       Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Indices: Operand{Index: 1, Name: "indices", Access: Read, Optional: false},
	Out:     Operand{Index: 2, Name: "out", Access: Write, Optional: false},
}

// GatherAxisParams are the parameters of gather_axis.
type GatherAxisParams struct {
	Axis uint32
}

// GatherAxis is the op gather_axis and its operands.
//
// One rank; x's shape is out's except along axis (the caller broadcasts), indices (int32 or uint32) have out's shape.
// out[…, i, …] = x[…, indices[…, i, …], …]. Indices that are negative or out of range are treated as by gather.
var GatherAxis = struct {
	Op
	X, Indices, Out Operand
}{
	Op: Op{Name: "gather_axis", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "indices", Access: Read, Optional: false},
		{Index: 2, Name: "out", Access: Write, Optional: false},
	}},
	X:       Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Indices: Operand{Index: 1, Name: "indices", Access: Read, Optional: false},
	Out:     Operand{Index: 2, Name: "out", Access: Write, Optional: false},
}

// LayerNormParams are the parameters of layer_norm.
type LayerNormParams struct {
	Eps float32
}

// LayerNorm is the op layer_norm and its operands.
//
// Over the last axis; weight and bias [cols].
var LayerNorm = struct {
	Op
	X, Weight, Bias, Out Operand
}{
	Op: Op{Name: "layer_norm", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "weight", Access: Read, Optional: true},
		{Index: 2, Name: "bias", Access: Read, Optional: true},
		{Index: 3, Name: "out", Access: Write, Optional: false},
	}},
	X:      Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Weight: Operand{Index: 1, Name: "weight", Access: Read, Optional: true},
	Bias:   Operand{Index: 2, Name: "bias", Access: Read, Optional: true},
	Out:    Operand{Index: 3, Name: "out", Access: Write, Optional: false},
}

// MaskParams are the parameters of mask.
type MaskParams struct {
	Reserved uint32
}

// Mask is the op mask and its operands.
//
// logits float32 [N, V], allowed uint32 [N, V/32 rounded up]. logits[n, v] becomes -Inf where the bit of v is 0: bit v
// % 32 of allowed[n, v / 32].
var Mask = struct {
	Op
	Logits, Allowed Operand
}{
	Op: Op{Name: "mask", Operands: []Operand{
		{Index: 0, Name: "logits", Access: Update, Optional: false},
		{Index: 1, Name: "allowed", Access: Read, Optional: false},
	}},
	Logits:  Operand{Index: 0, Name: "logits", Access: Update, Optional: false},
	Allowed: Operand{Index: 1, Name: "allowed", Access: Read, Optional: false},
}

// MatMulParams are the parameters of matmul.
type MatMulParams struct {
	Reserved uint32
}

// MatMul is the op matmul and its operands.
//
// a [..., M, K], b [..., K, N], out [..., M, N]; one batch shape (the caller broadcasts), any strides.
var MatMul = struct {
	Op
	A, B, Out Operand
}{
	Op: Op{Name: "matmul", Operands: []Operand{
		{Index: 0, Name: "a", Access: Read, Optional: false},
		{Index: 1, Name: "b", Access: Read, Optional: false},
		{Index: 2, Name: "out", Access: Write, Optional: false},
	}},
	A:   Operand{Index: 0, Name: "a", Access: Read, Optional: false},
	B:   Operand{Index: 1, Name: "b", Access: Read, Optional: false},
	Out: Operand{Index: 2, Name: "out", Access: Write, Optional: false},
}

// PadParams are the parameters of pad.
type PadParams struct {
	Low  [8]uint32
	Edge uint32
	Bits uint32
}

// Pad is the op pad and its operands.
//
// x begins at low in out, which has its rank and dtype. Around it, out has the element with these bits or, if edge is
// 1, the nearest element of x.
var Pad = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "pad", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// PagedHeadsParams are the parameters of paged_heads.
type PagedHeadsParams struct {
	// Whether there is a norm of q, and of k.
	QNorm       uint32
	KNorm       uint32
	QEps        float32
	KEps        float32
	Dims        uint32
	Traditional uint32
	Base        float32
	RopeScale   float32
	Position    int32
}

// PagedHeads is the op paged_heads and its operands.
//
// q [R, Hq, D], k and v [R, Hkv, D] of R tokens, gains [D], position int32 [1] or [R], freqs float32 [dims/2], slots
// int32 [R], keys and values [P, Hkv, L, D] (of uint8, see CACHE_GROUP), out [R, Hq, D]. Does what rms_norm and rope of
// q and k, and paged_update of keys and values do: out has the queries. position of the struct applies if the array is
// absent.
var PagedHeads = struct {
	Op
	Q, K, V, QGain, KGain, Position, Freqs, Slots, Keys, Values, Out Operand
}{
	Op: Op{Name: "paged_heads", Operands: []Operand{
		{Index: 0, Name: "q", Access: Read, Optional: false},
		{Index: 1, Name: "k", Access: Read, Optional: false},
		{Index: 2, Name: "v", Access: Read, Optional: false},
		{Index: 3, Name: "q_gain", Access: Read, Optional: true},
		{Index: 4, Name: "k_gain", Access: Read, Optional: true},
		{Index: 5, Name: "position", Access: Read, Optional: true},
		{Index: 6, Name: "freqs", Access: Read, Optional: true},
		{Index: 7, Name: "slots", Access: Read, Optional: false},
		{Index: 8, Name: "keys", Access: Update, Optional: false},
		{Index: 9, Name: "values", Access: Update, Optional: false},
		{Index: 10, Name: "out", Access: Write, Optional: false},
	}},
	Q:        Operand{Index: 0, Name: "q", Access: Read, Optional: false},
	K:        Operand{Index: 1, Name: "k", Access: Read, Optional: false},
	V:        Operand{Index: 2, Name: "v", Access: Read, Optional: false},
	QGain:    Operand{Index: 3, Name: "q_gain", Access: Read, Optional: true},
	KGain:    Operand{Index: 4, Name: "k_gain", Access: Read, Optional: true},
	Position: Operand{Index: 5, Name: "position", Access: Read, Optional: true},
	Freqs:    Operand{Index: 6, Name: "freqs", Access: Read, Optional: true},
	Slots:    Operand{Index: 7, Name: "slots", Access: Read, Optional: false},
	Keys:     Operand{Index: 8, Name: "keys", Access: Update, Optional: false},
	Values:   Operand{Index: 9, Name: "values", Access: Update, Optional: false},
	Out:      Operand{Index: 10, Name: "out", Access: Write, Optional: false},
}

// PagedSDPAParams are the parameters of paged_sdpa.
type PagedSDPAParams struct {
	Scale float32
	Apart uint32
}

// PagedSDPA is the op paged_sdpa and its operands.
//
// q [R, Hq, D], keys [P, Hkv, L, D] and values [P, Hkv, L, Dv] of P pages of L tokens (of uint8, see CACHE_GROUP),
// table int32 [S, M], sequences and lengths int32 [R], out [R, Hq, Dv]. Row r attends to the first lengths[r] (clamped
// to 0…M*L) tokens of sequence sequences[r], whose token t is token t % L of page table[sequence, t / L]. Where there
// is no such page, token and sequence do not exist. A row that sees no key gives zeros. apart is 1 if no row sees what
// the paged_update before it writes for another row.
var PagedSDPA = struct {
	Op
	Q, Keys, Values, Table, Sequences, Lengths, Out Operand
}{
	Op: Op{Name: "paged_sdpa", Operands: []Operand{
		{Index: 0, Name: "q", Access: Read, Optional: false},
		{Index: 1, Name: "keys", Access: Read, Optional: false},
		{Index: 2, Name: "values", Access: Read, Optional: false},
		{Index: 3, Name: "table", Access: Read, Optional: false},
		{Index: 4, Name: "sequences", Access: Read, Optional: false},
		{Index: 5, Name: "lengths", Access: Read, Optional: false},
		{Index: 6, Name: "out", Access: Write, Optional: false},
	}},
	Q:         Operand{Index: 0, Name: "q", Access: Read, Optional: false},
	Keys:      Operand{Index: 1, Name: "keys", Access: Read, Optional: false},
	Values:    Operand{Index: 2, Name: "values", Access: Read, Optional: false},
	Table:     Operand{Index: 3, Name: "table", Access: Read, Optional: false},
	Sequences: Operand{Index: 4, Name: "sequences", Access: Read, Optional: false},
	Lengths:   Operand{Index: 5, Name: "lengths", Access: Read, Optional: false},
	Out:       Operand{Index: 6, Name: "out", Access: Write, Optional: false},
}

// PagedStepParams are the parameters of paged_step.
type PagedStepParams struct {
	Heads PagedHeadsParams
	Scale float32
}

// PagedStep is the op paged_step and its operands.
//
// paged_heads of tokens, and paged_sdpa of their rows, none of which sees another: the operands of both, out [R, Hq,
// D]. Rows of one sequence may give NaNs.
var PagedStep = struct {
	Op
	Q, K, V, QGain, KGain, Position, Freqs, Slots, Keys, Values, Table, Sequences, Lengths, Out Operand
}{
	Op: Op{Name: "paged_step", Operands: []Operand{
		{Index: 0, Name: "q", Access: Read, Optional: false},
		{Index: 1, Name: "k", Access: Read, Optional: false},
		{Index: 2, Name: "v", Access: Read, Optional: false},
		{Index: 3, Name: "q_gain", Access: Read, Optional: true},
		{Index: 4, Name: "k_gain", Access: Read, Optional: true},
		{Index: 5, Name: "position", Access: Read, Optional: true},
		{Index: 6, Name: "freqs", Access: Read, Optional: true},
		{Index: 7, Name: "slots", Access: Read, Optional: false},
		{Index: 8, Name: "keys", Access: Update, Optional: false},
		{Index: 9, Name: "values", Access: Update, Optional: false},
		{Index: 10, Name: "table", Access: Read, Optional: false},
		{Index: 11, Name: "sequences", Access: Read, Optional: false},
		{Index: 12, Name: "lengths", Access: Read, Optional: false},
		{Index: 13, Name: "out", Access: Write, Optional: false},
	}},
	Q:         Operand{Index: 0, Name: "q", Access: Read, Optional: false},
	K:         Operand{Index: 1, Name: "k", Access: Read, Optional: false},
	V:         Operand{Index: 2, Name: "v", Access: Read, Optional: false},
	QGain:     Operand{Index: 3, Name: "q_gain", Access: Read, Optional: true},
	KGain:     Operand{Index: 4, Name: "k_gain", Access: Read, Optional: true},
	Position:  Operand{Index: 5, Name: "position", Access: Read, Optional: true},
	Freqs:     Operand{Index: 6, Name: "freqs", Access: Read, Optional: true},
	Slots:     Operand{Index: 7, Name: "slots", Access: Read, Optional: false},
	Keys:      Operand{Index: 8, Name: "keys", Access: Update, Optional: false},
	Values:    Operand{Index: 9, Name: "values", Access: Update, Optional: false},
	Table:     Operand{Index: 10, Name: "table", Access: Read, Optional: false},
	Sequences: Operand{Index: 11, Name: "sequences", Access: Read, Optional: false},
	Lengths:   Operand{Index: 12, Name: "lengths", Access: Read, Optional: false},
	Out:       Operand{Index: 13, Name: "out", Access: Write, Optional: false},
}

// PagedUpdateParams are the parameters of paged_update.
type PagedUpdateParams struct {
	Reserved uint32
}

// PagedUpdate is the op paged_update and its operands.
//
// pages [P, H, L, D] of P pages of L tokens, rows [R, H, D], slots int32 [R], all different. Row r becomes token
// slots[r] % L of page slots[r] / L, rounded to pages' type (of uint8, see CACHE_GROUP); where there is no such page it
// goes nowhere.
var PagedUpdate = struct {
	Op
	Pages, Rows, Slots Operand
}{
	Op: Op{Name: "paged_update", Operands: []Operand{
		{Index: 0, Name: "pages", Access: Update, Optional: false},
		{Index: 1, Name: "rows", Access: Read, Optional: false},
		{Index: 2, Name: "slots", Access: Read, Optional: false},
	}},
	Pages: Operand{Index: 0, Name: "pages", Access: Update, Optional: false},
	Rows:  Operand{Index: 1, Name: "rows", Access: Read, Optional: false},
	Slots: Operand{Index: 2, Name: "slots", Access: Read, Optional: false},
}

// PenalizeParams are the parameters of penalize.
type PenalizeParams struct {
	Reserved uint32
}

// Penalize is the op penalize and its operands.
//
// logits float32 [N, V], counts uint32 [S, V], penalties float32 [S, 4], a PENALTY each, rows int32 [N]. Row n of
// logits is changed by row rows[n] of penalties where that of counts is not 0; one that does not exist leaves it
// unchanged.
var Penalize = struct {
	Op
	Logits, Counts, Penalties, Rows Operand
}{
	Op: Op{Name: "penalize", Operands: []Operand{
		{Index: 0, Name: "logits", Access: Update, Optional: false},
		{Index: 1, Name: "counts", Access: Read, Optional: false},
		{Index: 2, Name: "penalties", Access: Read, Optional: false},
		{Index: 3, Name: "rows", Access: Read, Optional: false},
	}},
	Logits:    Operand{Index: 0, Name: "logits", Access: Update, Optional: false},
	Counts:    Operand{Index: 1, Name: "counts", Access: Read, Optional: false},
	Penalties: Operand{Index: 2, Name: "penalties", Access: Read, Optional: false},
	Rows:      Operand{Index: 3, Name: "rows", Access: Read, Optional: false},
}

// ProjectionParams are the parameters of projection.
type ProjectionParams struct {
	GroupSize uint32
	Bits      uint32
	Norm      uint32
	Epilogue  ProjectionEpilogue
	Eps       float32
	// The type of the products, with arg_max and greedy.
	Dtype DType
}

// Projection is the op projection and its operands.
//
// x, up [..., K], gain [K], then for each of three matrices w [N, K*bits/32], scales, biases, out; absent ones are the
// last. Products of the rows of x, or of RMSNorm(x) * gain if norm is 1, or of SiLU(x) * up if there is an up, with
// matrices quantized alike; without biases, scales are uint8 and the mode is the one with such bits and groups. With
// the epilogue silu_mul there are two matrices of one shape and one out, the first; with arg_max and greedy one row and
// one matrix, and out is uint32 [1]: where the largest product is, as the kinds of reduce of these names say.
var Projection = struct {
	Op
	X, Gain, Up, Residual, W, Scales, Biases, Out Operand
}{
	Op: Op{Name: "projection", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "gain", Access: Read, Optional: true},
		{Index: 2, Name: "up", Access: Read, Optional: true},
		{Index: 3, Name: "residual", Access: Read, Optional: true},
		{Index: 4, Name: "w", Access: Read, Optional: true},
		{Index: 5, Name: "scales", Access: Read, Optional: true},
		{Index: 6, Name: "biases", Access: Read, Optional: true},
		{Index: 7, Name: "out", Access: Write, Optional: true},
		{Index: 8, Name: "w", Access: Read, Optional: true},
		{Index: 9, Name: "scales", Access: Read, Optional: true},
		{Index: 10, Name: "biases", Access: Read, Optional: true},
		{Index: 11, Name: "out", Access: Write, Optional: true},
		{Index: 12, Name: "w", Access: Read, Optional: true},
		{Index: 13, Name: "scales", Access: Read, Optional: true},
		{Index: 14, Name: "biases", Access: Read, Optional: true},
		{Index: 15, Name: "out", Access: Write, Optional: true},
	}},
	X:        Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Gain:     Operand{Index: 1, Name: "gain", Access: Read, Optional: true},
	Up:       Operand{Index: 2, Name: "up", Access: Read, Optional: true},
	Residual: Operand{Index: 3, Name: "residual", Access: Read, Optional: true},
	W:        Operand{Index: 4, Name: "w", Access: Read, Optional: true},
	Scales:   Operand{Index: 5, Name: "scales", Access: Read, Optional: true},
	Biases:   Operand{Index: 6, Name: "biases", Access: Read, Optional: true},
	Out:      Operand{Index: 7, Name: "out", Access: Write, Optional: true},
}

// The last operands of projection are several groups, of which the first has names.
const (
	ProjectionGroups    = 3
	ProjectionGroupSize = 4
)

// QKVHeadsParams are the parameters of qkv_heads.
type QKVHeadsParams struct {
	Projection ProjectionParams
	Heads      PagedHeadsParams
	// The factor of scores, if there is a table.
	Scale float32
}

// QKVHeads is the op qkv_heads and its operands.
//
// x [R, K], gain [K], then for queries, keys and values w [N, K*bits/32], scales, biases. Does what a projection with a
// norm does and then, with its results as q, k and v, paged_step, or paged_heads if there is no table, whose operands
// it also has.
var QKVHeads = struct {
	Op
	X, Gain, QGain, KGain, Position, Freqs, Slots, Keys, Values, Table, Sequences, Lengths, Out, W, Scales, Biases Operand
}{
	Op: Op{Name: "qkv_heads", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "gain", Access: Read, Optional: true},
		{Index: 2, Name: "q_gain", Access: Read, Optional: true},
		{Index: 3, Name: "k_gain", Access: Read, Optional: true},
		{Index: 4, Name: "position", Access: Read, Optional: true},
		{Index: 5, Name: "freqs", Access: Read, Optional: true},
		{Index: 6, Name: "slots", Access: Read, Optional: false},
		{Index: 7, Name: "keys", Access: Update, Optional: false},
		{Index: 8, Name: "values", Access: Update, Optional: false},
		{Index: 9, Name: "table", Access: Read, Optional: true},
		{Index: 10, Name: "sequences", Access: Read, Optional: true},
		{Index: 11, Name: "lengths", Access: Read, Optional: true},
		{Index: 12, Name: "out", Access: Write, Optional: false},
		{Index: 13, Name: "w", Access: Read, Optional: false},
		{Index: 14, Name: "scales", Access: Read, Optional: false},
		{Index: 15, Name: "biases", Access: Read, Optional: true},
		{Index: 16, Name: "w", Access: Read, Optional: false},
		{Index: 17, Name: "scales", Access: Read, Optional: false},
		{Index: 18, Name: "biases", Access: Read, Optional: true},
		{Index: 19, Name: "w", Access: Read, Optional: false},
		{Index: 20, Name: "scales", Access: Read, Optional: false},
		{Index: 21, Name: "biases", Access: Read, Optional: true},
	}},
	X:         Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Gain:      Operand{Index: 1, Name: "gain", Access: Read, Optional: true},
	QGain:     Operand{Index: 2, Name: "q_gain", Access: Read, Optional: true},
	KGain:     Operand{Index: 3, Name: "k_gain", Access: Read, Optional: true},
	Position:  Operand{Index: 4, Name: "position", Access: Read, Optional: true},
	Freqs:     Operand{Index: 5, Name: "freqs", Access: Read, Optional: true},
	Slots:     Operand{Index: 6, Name: "slots", Access: Read, Optional: false},
	Keys:      Operand{Index: 7, Name: "keys", Access: Update, Optional: false},
	Values:    Operand{Index: 8, Name: "values", Access: Update, Optional: false},
	Table:     Operand{Index: 9, Name: "table", Access: Read, Optional: true},
	Sequences: Operand{Index: 10, Name: "sequences", Access: Read, Optional: true},
	Lengths:   Operand{Index: 11, Name: "lengths", Access: Read, Optional: true},
	Out:       Operand{Index: 12, Name: "out", Access: Write, Optional: false},
	W:         Operand{Index: 13, Name: "w", Access: Read, Optional: false},
	Scales:    Operand{Index: 14, Name: "scales", Access: Read, Optional: false},
	Biases:    Operand{Index: 15, Name: "biases", Access: Read, Optional: true},
}

// The last operands of qkv_heads are several groups, of which the first has names.
const (
	QKVHeadsGroups    = 3
	QKVHeadsGroupSize = 3
)

// QuantizeParams are the parameters of quantize.
type QuantizeParams struct {
	GroupSize uint32
	Bits      uint32
	Mode      Mode
}

// Quantize is the op quantize and its operands.
//
// x [..., K], w [..., K*bits/32] uint32, scales, biases [..., K/group_size]. Without biases, scales are uint8 and the
// other two are fixed: groups of 32 in 4 bits (MXFP4), of 16 in 4 (NVFP4), of 32 in 8 (MXFP8).
var Quantize = struct {
	Op
	X, W, Scales, Biases Operand
}{
	Op: Op{Name: "quantize", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "w", Access: Write, Optional: false},
		{Index: 2, Name: "scales", Access: Write, Optional: false},
		{Index: 3, Name: "biases", Access: Write, Optional: true},
	}},
	X:      Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	W:      Operand{Index: 1, Name: "w", Access: Write, Optional: false},
	Scales: Operand{Index: 2, Name: "scales", Access: Write, Optional: false},
	Biases: Operand{Index: 3, Name: "biases", Access: Write, Optional: true},
}

// QuantizedGatherParams are the parameters of quantized_gather.
type QuantizedGatherParams struct {
	GroupSize uint32
	Bits      uint32
	Mode      Mode
}

// QuantizedGather is the op quantized_gather and its operands.
//
// w uint32 [V, K*bits/32], scales, biases [V, K/group_size], indices, out [indices…, K].
var QuantizedGather = struct {
	Op
	W, Scales, Biases, Indices, Out Operand
}{
	Op: Op{Name: "quantized_gather", Operands: []Operand{
		{Index: 0, Name: "w", Access: Read, Optional: false},
		{Index: 1, Name: "scales", Access: Read, Optional: false},
		{Index: 2, Name: "biases", Access: Read, Optional: true},
		{Index: 3, Name: "indices", Access: Read, Optional: false},
		{Index: 4, Name: "out", Access: Write, Optional: false},
	}},
	W:       Operand{Index: 0, Name: "w", Access: Read, Optional: false},
	Scales:  Operand{Index: 1, Name: "scales", Access: Read, Optional: false},
	Biases:  Operand{Index: 2, Name: "biases", Access: Read, Optional: true},
	Indices: Operand{Index: 3, Name: "indices", Access: Read, Optional: false},
	Out:     Operand{Index: 4, Name: "out", Access: Write, Optional: false},
}

// QuantizedMatMulParams are the parameters of quantized_matmul.
type QuantizedMatMulParams struct {
	GroupSize uint32
	Bits      uint32
	Mode      Mode
	Transpose uint32
}

// QuantizedMatMul is the op quantized_matmul and its operands.
//
// x [..., M, K], out [..., M, N]. transpose: w is [N, K*bits/32] and groups run along K; else w is [K, N*bits/32] and
// groups run along N.
var QuantizedMatMul = struct {
	Op
	X, W, Scales, Biases, Out Operand
}{
	Op: Op{Name: "quantized_matmul", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "w", Access: Read, Optional: false},
		{Index: 2, Name: "scales", Access: Read, Optional: false},
		{Index: 3, Name: "biases", Access: Read, Optional: true},
		{Index: 4, Name: "out", Access: Write, Optional: false},
	}},
	X:      Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	W:      Operand{Index: 1, Name: "w", Access: Read, Optional: false},
	Scales: Operand{Index: 2, Name: "scales", Access: Read, Optional: false},
	Biases: Operand{Index: 3, Name: "biases", Access: Read, Optional: true},
	Out:    Operand{Index: 4, Name: "out", Access: Write, Optional: false},
}

// RandomParams are the parameters of random.
type RandomParams struct {
	Kind  RandomKind
	First float32
	Scale float32
	Limit float32
}

// Random is the op random and its operands.
//
// state uint32 [RANDOM_STATE_SIZE], out contiguous floats. fallback/random.go says what the numbers mean.
var Random = struct {
	Op
	State, Out Operand
}{
	Op: Op{Name: "random", Operands: []Operand{
		{Index: 0, Name: "state", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	State: Operand{Index: 0, Name: "state", Access: Read, Optional: false},
	Out:   Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// ReduceParams are the parameters of reduce.
type ReduceParams struct {
	Kind ReduceKind
}

// Reduce is the op reduce and its operands.
//
// x [kept…, reduced…], out [kept…], which has x's dtype, with these exceptions: uint32 for arg_max, arg_min and greedy
// (which reduce one axis), bool for all and any, int32 for a sum or product of bools, uint32 for one of uint8s, float32
// for a mean of integers or bools. greedy is arg_max of floats, but 0xffffffff where a row holds a NaN, +Inf or nothing
// finite.
var Reduce = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "reduce", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// RMSNormParams are the parameters of rms_norm.
type RMSNormParams struct {
	Eps float32
}

// RMSNorm is the op rms_norm and its operands.
//
// Over the last axis; weight [cols].
var RMSNorm = struct {
	Op
	X, Weight, Out Operand
}{
	Op: Op{Name: "rms_norm", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "weight", Access: Read, Optional: true},
		{Index: 2, Name: "out", Access: Write, Optional: false},
	}},
	X:      Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Weight: Operand{Index: 1, Name: "weight", Access: Read, Optional: true},
	Out:    Operand{Index: 2, Name: "out", Access: Write, Optional: false},
}

// RoPEParams are the parameters of rope.
type RoPEParams struct {
	Dims        uint32
	Traditional uint32
	Base        float32
	Scale       float32
	Offset      int32
}

// RoPE is the op rope and its operands.
//
// x, out [B, H, T, D], offset int32 [1] or [B], freqs float32 [dims/2]. The angle of position t and pair i is (offset +
// t) * scale * base^(-2i/dims), or (offset + t) * scale / freqs[i]. offset of the struct applies if the array is
// absent.
var RoPE = struct {
	Op
	X, Offset, Freqs, Out Operand
}{
	Op: Op{Name: "rope", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "offset", Access: Read, Optional: true},
		{Index: 2, Name: "freqs", Access: Read, Optional: true},
		{Index: 3, Name: "out", Access: Write, Optional: false},
	}},
	X:      Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Offset: Operand{Index: 1, Name: "offset", Access: Read, Optional: true},
	Freqs:  Operand{Index: 2, Name: "freqs", Access: Read, Optional: true},
	Out:    Operand{Index: 3, Name: "out", Access: Write, Optional: false},
}

// SampleParams are the parameters of sample.
type SampleParams struct {
	Step int32
}

// Sample is the op sample and its operands.
//
// logits [..., V], params uint32 [SAMPLE_PARAMS_SIZE], or for logits [N, V] one for each row, [N, SAMPLE_PARAMS_SIZE];
// step int32 [1], out uint32 [...]. One draw from each row, as fallback/sample.go says; 0xffffffff where a row holds a
// NaN, +Inf or nothing finite. step of the struct applies if the array is absent.
var Sample = struct {
	Op
	Logits, Params, Step, Out Operand
}{
	Op: Op{Name: "sample", Operands: []Operand{
		{Index: 0, Name: "logits", Access: Read, Optional: false},
		{Index: 1, Name: "params", Access: Read, Optional: false},
		{Index: 2, Name: "step", Access: Read, Optional: true},
		{Index: 3, Name: "out", Access: Write, Optional: false},
	}},
	Logits: Operand{Index: 0, Name: "logits", Access: Read, Optional: false},
	Params: Operand{Index: 1, Name: "params", Access: Read, Optional: false},
	Step:   Operand{Index: 2, Name: "step", Access: Read, Optional: true},
	Out:    Operand{Index: 3, Name: "out", Access: Write, Optional: false},
}

// ScanParams are the parameters of scan.
type ScanParams struct {
	Axis      uint32
	Kind      ScanKind
	Exclusive uint32
	Reverse   uint32
}

// Scan is the op scan and its operands.
//
// One shape and dtype of numbers. Along axis, out has the sum or product of all elements of x up to this one: without
// it if exclusive, and from the end if reverse.
var Scan = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "scan", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// ScatterParams are the parameters of scatter.
type ScatterParams struct {
	Axis  uint32
	Mode  ScatterMode
	Along uint32
}

// Scatter is the op scatter and its operands.
//
// x [pre…, V, post…], indices (int32 or uint32), updates [pre…, indices…, post…], out (x's shape). out is x with
// updates[…, i, …] put at out[…, indices[i], …], combined as mode says. axis is V's. along: indices have updates'
// shape, with one axis for V, and each column its own. A negative index counts from the end; one out of range has no
// effect.
var Scatter = struct {
	Op
	X, Indices, Updates, Out Operand
}{
	Op: Op{Name: "scatter", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "indices", Access: Read, Optional: false},
		{Index: 2, Name: "updates", Access: Read, Optional: false},
		{Index: 3, Name: "out", Access: Write, Optional: false},
	}},
	X:       Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Indices: Operand{Index: 1, Name: "indices", Access: Read, Optional: false},
	Updates: Operand{Index: 2, Name: "updates", Access: Read, Optional: false},
	Out:     Operand{Index: 3, Name: "out", Access: Write, Optional: false},
}

// SDPAParams are the parameters of sdpa.
type SDPAParams struct {
	Scale  float32
	Causal uint32
}

// SDPA is the op sdpa and its operands.
//
// q [B, Hq, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv], mask bool or float [B, Hq, Tq, Tk] (broadcast by the
// caller), key_length int32 [1], out [B, Hq, Tq, Dv]. k and v are of one float type, q and out of one, too. Keys at or
// past key_length do not exist. causal: query i sees keys up to L - Tq + i, where L is the key length. A query that
// sees no key gives zeros. Values of keys that it does not see do not matter, even if they are not finite.
var SDPA = struct {
	Op
	Q, K, V, Mask, KeyLength, Out Operand
}{
	Op: Op{Name: "sdpa", Operands: []Operand{
		{Index: 0, Name: "q", Access: Read, Optional: false},
		{Index: 1, Name: "k", Access: Read, Optional: false},
		{Index: 2, Name: "v", Access: Read, Optional: false},
		{Index: 3, Name: "mask", Access: Read, Optional: true},
		{Index: 4, Name: "key_length", Access: Read, Optional: true},
		{Index: 5, Name: "out", Access: Write, Optional: false},
	}},
	Q:         Operand{Index: 0, Name: "q", Access: Read, Optional: false},
	K:         Operand{Index: 1, Name: "k", Access: Read, Optional: false},
	V:         Operand{Index: 2, Name: "v", Access: Read, Optional: false},
	Mask:      Operand{Index: 3, Name: "mask", Access: Read, Optional: true},
	KeyLength: Operand{Index: 4, Name: "key_length", Access: Read, Optional: true},
	Out:       Operand{Index: 5, Name: "out", Access: Write, Optional: false},
}

// SiLUMulParams are the parameters of silu_mul.
type SiLUMulParams struct {
	Reserved uint32
}

// SiLUMul is the op silu_mul and its operands.
//
// out = gate * sigmoid(gate) * up. All of one shape.
var SiLUMul = struct {
	Op
	Gate, Up, Out Operand
}{
	Op: Op{Name: "silu_mul", Operands: []Operand{
		{Index: 0, Name: "gate", Access: Read, Optional: false},
		{Index: 1, Name: "up", Access: Read, Optional: false},
		{Index: 2, Name: "out", Access: Write, Optional: false},
	}},
	Gate: Operand{Index: 0, Name: "gate", Access: Read, Optional: false},
	Up:   Operand{Index: 1, Name: "up", Access: Read, Optional: false},
	Out:  Operand{Index: 2, Name: "out", Access: Write, Optional: false},
}

// SliceParams are the parameters of slice.
type SliceParams struct {
	Start [8]int32
}

// Slice is the op slice and its operands.
//
// start int32 [rank], out (x's rank). out = the part of x that begins at start; start of the struct applies if the
// array is absent. It is clamped so that the part fits, as in slice_update.
var Slice = struct {
	Op
	X, Start, Out Operand
}{
	Op: Op{Name: "slice", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "start", Access: Read, Optional: true},
		{Index: 2, Name: "out", Access: Write, Optional: false},
	}},
	X:     Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Start: Operand{Index: 1, Name: "start", Access: Read, Optional: true},
	Out:   Operand{Index: 2, Name: "out", Access: Write, Optional: false},
}

// SliceUpdateParams are the parameters of slice_update.
type SliceUpdateParams struct {
	Start [8]int32
}

// SliceUpdate is the op slice_update and its operands.
//
// update (dst's rank), start int32 [rank]; start of the struct applies if the array is absent. A start is clamped so
// that the update fits, as in XLA.
var SliceUpdate = struct {
	Op
	Dst, Update, Start Operand
}{
	Op: Op{Name: "slice_update", Operands: []Operand{
		{Index: 0, Name: "dst", Access: Update, Optional: false},
		{Index: 1, Name: "update", Access: Read, Optional: false},
		{Index: 2, Name: "start", Access: Read, Optional: true},
	}},
	Dst:    Operand{Index: 0, Name: "dst", Access: Update, Optional: false},
	Update: Operand{Index: 1, Name: "update", Access: Read, Optional: false},
	Start:  Operand{Index: 2, Name: "start", Access: Read, Optional: true},
}

// SoftmaxParams are the parameters of softmax.
type SoftmaxParams struct {
	Reserved uint32
}

// Softmax is the op softmax and its operands.
//
// Over the last axis.
var Softmax = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "softmax", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// TallyParams are the parameters of tally.
type TallyParams struct {
	Reserved uint32
}

// Tally is the op tally and its operands.
//
// counts uint32 [S, V], rows int32 [N], tokens and amounts uint32 [N]. counts[rows[n], tokens[n]] += amounts[n],
// wrapping around, for each n whose place exists.
var Tally = struct {
	Op
	Counts, Rows, Tokens, Amounts Operand
}{
	Op: Op{Name: "tally", Operands: []Operand{
		{Index: 0, Name: "counts", Access: Update, Optional: false},
		{Index: 1, Name: "rows", Access: Read, Optional: false},
		{Index: 2, Name: "tokens", Access: Read, Optional: false},
		{Index: 3, Name: "amounts", Access: Read, Optional: false},
	}},
	Counts:  Operand{Index: 0, Name: "counts", Access: Update, Optional: false},
	Rows:    Operand{Index: 1, Name: "rows", Access: Read, Optional: false},
	Tokens:  Operand{Index: 2, Name: "tokens", Access: Read, Optional: false},
	Amounts: Operand{Index: 3, Name: "amounts", Access: Read, Optional: false},
}

// UnaryParams are the parameters of unary.
type UnaryParams struct {
	Kind UnaryKind
}

// Unary is the op unary and its operands.
//
// One shape.
var Unary = struct {
	Op
	X, Out Operand
}{
	Op: Op{Name: "unary", Operands: []Operand{
		{Index: 0, Name: "x", Access: Read, Optional: false},
		{Index: 1, Name: "out", Access: Write, Optional: false},
	}},
	X:   Operand{Index: 0, Name: "x", Access: Read, Optional: false},
	Out: Operand{Index: 1, Name: "out", Access: Write, Optional: false},
}

// WhereParams are the parameters of where.
type WhereParams struct {
	Reserved uint32
}

// Where is the op where and its operands.
//
// condition (bool), a, b, out. All of one shape (the caller broadcasts); a, b and out of one dtype.
var Where = struct {
	Op
	Condition, A, B, Out Operand
}{
	Op: Op{Name: "where", Operands: []Operand{
		{Index: 0, Name: "condition", Access: Read, Optional: false},
		{Index: 1, Name: "a", Access: Read, Optional: false},
		{Index: 2, Name: "b", Access: Read, Optional: false},
		{Index: 3, Name: "out", Access: Write, Optional: false},
	}},
	Condition: Operand{Index: 0, Name: "condition", Access: Read, Optional: false},
	A:         Operand{Index: 1, Name: "a", Access: Read, Optional: false},
	B:         Operand{Index: 2, Name: "b", Access: Read, Optional: false},
	Out:       Operand{Index: 3, Name: "out", Access: Write, Optional: false},
}
