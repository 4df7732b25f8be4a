// Made from csrc/ops/ops.def by go generate ./internal/opdef; do not edit.
#ifndef GEN_KINDS_H
#define GEN_KINDS_H

// The maximum number of axes of a tensor.
#define MAX_RANK 8

// Length of the state that random ops draw from: a seed and a counter, of two uint32 each, the low one first.
#define RANDOM_STATE_SIZE 4

// Length of the parameters of sample, in uint32.
#define SAMPLE_PARAMS_SIZE 9

// Pages of keys or values may be uint8: then a head of D elements, a multiple of 4, is D codes followed by a float32
// scale for each CACHE_GROUP of them. An element is (code - CACHE_ZERO) * scale.
#define CACHE_GROUP 32

#define CACHE_ZERO 128

// The bit of a count that says that the token is in the prompt. Those below count how often it is in the answer.
#define IN_PROMPT_BIT 31

// The element types. Bool is one byte, 0 or 1.
#define DT_FLOAT32 1
#define DT_FLOAT16 2
#define DT_BFLOAT16 3
#define DT_INT32 4
#define DT_UINT32 5
#define DT_BOOL 6
#define DT_UINT8 7

// The kinds of the binary op.
#define BINARY_ADD 0
#define BINARY_SUB 1
#define BINARY_MUL 2
#define BINARY_DIV 3
#define BINARY_MAX 4
#define BINARY_MIN 5
#define BINARY_POW 6
#define BINARY_MOD 7
#define BINARY_EQUAL 8
#define BINARY_NOT_EQUAL 9
#define BINARY_LESS 10
#define BINARY_LESS_EQUAL 11
#define BINARY_GREATER 12
#define BINARY_GREATER_EQUAL 13
#define BINARY_AND 14
#define BINARY_OR 15
#define BINARY_BIT_AND 16
#define BINARY_BIT_OR 17
#define BINARY_BIT_XOR 18
#define BINARY_SHIFT_LEFT 19
#define BINARY_SHIFT_RIGHT 20

// The kinds of the unary op.
#define UNARY_NEG 0
#define UNARY_ABS 1
#define UNARY_EXP 2
#define UNARY_LOG 3
#define UNARY_SQRT 4
#define UNARY_RSQRT 5
#define UNARY_SIN 6
#define UNARY_COS 7
#define UNARY_TANH 8
#define UNARY_SIGMOID 9
#define UNARY_SILU 10
#define UNARY_GELU 11
#define UNARY_ERF 12
#define UNARY_SQUARE 13
#define UNARY_FLOOR 14
#define UNARY_CEIL 15
#define UNARY_ROUND 16
#define UNARY_NOT 17

// The kinds of the reduce op.
#define REDUCE_SUM 0
#define REDUCE_MEAN 1
#define REDUCE_AMAX 2
#define REDUCE_AMIN 3
#define REDUCE_PROD 4
#define REDUCE_ALL 5
#define REDUCE_ANY 6
#define REDUCE_ARG_MAX 7
#define REDUCE_ARG_MIN 8
#define REDUCE_LOG_SUM_EXP 9
#define REDUCE_GREEDY 10

// The kinds of the scan op.
#define SCAN_SUM 0
#define SCAN_PROD 1

// How scatter combines the updates of a place with its element: the last update replaces it, or all are combined.
#define SCATTER_SET 0
#define SCATTER_ADD 1
#define SCATTER_MUL 2
#define SCATTER_MIN 3
#define SCATTER_MAX 4

// MLX's quantization modes. All but the first have no biases.
#define QUANTIZATION_AFFINE 0
#define QUANTIZATION_MXFP4 1
#define QUANTIZATION_NVFP4 2
#define QUANTIZATION_MXFP8 3

// The kinds of the random op.
#define RANDOM_UNIFORM 0
#define RANDOM_NORMAL 1

// The last word of a Philox counter, by the op that draws; random adds its kind.
#define PHILOX_SAMPLE 0
#define PHILOX_RANDOM 1

// Where the parameters of sample are: scale and exponent of log2(e)/temperature, what the filters keep, and seed and
// first draw, of two uint32 each.
#define SAMPLE_SCALE 0
#define SAMPLE_EXPONENT 1
#define SAMPLE_TOP_K 2
#define SAMPLE_TOP_P 3
#define SAMPLE_MIN_P 4
#define SAMPLE_SEED 5
#define SAMPLE_COUNTER 7

// A row of penalties: the factors of positive and of other logits of tokens that are there already, what is subtracted
// from those of tokens of the answer, and what is subtracted for each time that they are in it.
#define PENALTY_POSITIVE 0
#define PENALTY_OTHER 1
#define PENALTY_PRESENCE 2
#define PENALTY_FREQUENCY 3

// What the projection op does with its products.
#define PROJECTION_STORE 0
#define PROJECTION_RESIDUAL 1
#define PROJECTION_SILU_MUL 2
#define PROJECTION_ARG_MAX 3
#define PROJECTION_GREEDY 4

#endif
