package ops

import "github.com/kompute-go/kompute-go/fallback"

// These structs are what csrc/ops/op_params.h declares, field by field; a test
// reads that file and compares. Ops without parameters have one reserved field.
type (
	binaryOp struct {
		Kind uint32
	}
	unaryOp struct {
		Kind uint32
	}
	copyOp struct {
		Reserved uint32
	}
	castOp struct {
		Reserved uint32
	}
	siLUMulOp struct {
		Reserved uint32
	}
	softmaxOp struct {
		Reserved uint32
	}
	rmsNormOp struct {
		Eps float32
	}
	layerNormOp struct {
		Eps float32
	}
	reduceOp struct {
		Kind uint32
	}
	randomOp struct {
		Kind  uint32
		First float32
		Scale float32
		Limit float32
	}
	sampleOp struct {
		Step int32
	}
	gatherOp struct {
		Axis uint32
	}
	quantizeOp struct {
		GroupSize uint32
		Bits      uint32
		Mode      uint32
	}
	quantizedGatherOp struct {
		GroupSize uint32
		Bits      uint32
		Mode      uint32
	}
	dequantizeOp struct {
		GroupSize uint32
		Bits      uint32
		Mode      uint32
	}
	quantizedMatMulOp struct {
		GroupSize uint32
		Bits      uint32
		Mode      uint32
		Transpose uint32
	}
	matMulOp struct {
		Reserved uint32
	}
	ropeOp struct {
		Dims        uint32
		Traditional uint32
		Base        float32
		Scale       float32
		Offset      int32
	}
	sdpaOp struct {
		Scale  float32
		Causal uint32
	}
	sliceUpdateOp struct {
		Start [8]int32
	}
	sliceOp struct {
		Start [8]int32
	}
	fillOp struct {
		Bits uint32
	}
	arangeOp struct {
		Start uint32
		Step  uint32
	}
	concatOp struct {
		Axis uint32
	}
	padOp struct {
		Low  [8]uint32
		Edge uint32
		Bits uint32
	}
	whereOp struct {
		Reserved uint32
	}
	gatherAxisOp struct {
		Axis uint32
	}
	scatterOp struct {
		Axis  uint32
		Mode  uint32
		Along uint32
	}
)

// binaryNames gives the kinds of the binary op, as BINARY_* of
// shaders/include/types.h, the names that errors use.
var binaryNames = [...]string{
	fallback.BinaryAdd:          "add",
	fallback.BinarySub:          "sub",
	fallback.BinaryMul:          "mul",
	fallback.BinaryDiv:          "div",
	fallback.BinaryMax:          "max",
	fallback.BinaryMin:          "min",
	fallback.BinaryPow:          "pow",
	fallback.BinaryMod:          "mod",
	fallback.BinaryEqual:        "equal",
	fallback.BinaryNotEqual:     "not_equal",
	fallback.BinaryLess:         "less",
	fallback.BinaryLessEqual:    "less_equal",
	fallback.BinaryGreater:      "greater",
	fallback.BinaryGreaterEqual: "greater_equal",
	fallback.BinaryAnd:          "and",
	fallback.BinaryOr:           "or",
	fallback.BinaryBitAnd:       "bit_and",
	fallback.BinaryBitOr:        "bit_or",
	fallback.BinaryBitXor:       "bit_xor",
	fallback.BinaryShiftLeft:    "shift_left",
	fallback.BinaryShiftRight:   "shift_right",
}

// scatterNames does so for the modes of the scatter op, SCATTER_*.
var scatterNames = [...]string{
	fallback.ScatterSet: "set",
	fallback.ScatterAdd: "add",
	fallback.ScatterMul: "mul",
	fallback.ScatterMin: "min",
	fallback.ScatterMax: "max",
}

// unaryNames does so for the kinds of the unary op, UNARY_*.
var unaryNames = [...]string{
	fallback.UnaryNeg:     "neg",
	fallback.UnaryAbs:     "abs",
	fallback.UnaryExp:     "exp",
	fallback.UnaryLog:     "log",
	fallback.UnarySqrt:    "sqrt",
	fallback.UnaryRsqrt:   "rsqrt",
	fallback.UnarySin:     "sin",
	fallback.UnaryCos:     "cos",
	fallback.UnaryTanh:    "tanh",
	fallback.UnarySigmoid: "sigmoid",
	fallback.UnarySiLU:    "silu",
	fallback.UnaryGELU:    "gelu",
	fallback.UnaryErf:     "erf",
	fallback.UnarySquare:  "square",
	fallback.UnaryFloor:   "floor",
	fallback.UnaryCeil:    "ceil",
	fallback.UnaryRound:   "round",
	fallback.UnaryNot:     "not",
}

// reduceNames does so for the kinds of the reduce op, REDUCE_*.
var reduceNames = [...]string{
	fallback.ReduceSum:       "sum",
	fallback.ReduceMean:      "mean",
	fallback.ReduceAMax:      "amax",
	fallback.ReduceAMin:      "amin",
	fallback.ReduceProd:      "prod",
	fallback.ReduceAll:       "all",
	fallback.ReduceAny:       "any",
	fallback.ReduceArgMax:    "arg_max",
	fallback.ReduceArgMin:    "arg_min",
	fallback.ReduceLogSumExp: "log_sum_exp",
}
