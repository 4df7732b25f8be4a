// What GLSL and C++ both read: element types and the parameter struct of every
// kernel. Fields are 32-bit, so both languages lay them out alike; a struct is
// a kernel's push constants and has at most 128 bytes.
#ifndef KPX_TYPES_H
#define KPX_TYPES_H

#ifdef __cplusplus
#include <cstdint>
namespace kpx {
using uint = uint32_t;
#endif

#define DT_FLOAT32 1
#define DT_FLOAT16 2
#define DT_BFLOAT16 3
#define DT_INT32 4
#define DT_UINT32 5
#define DT_BOOL 6
#define DT_UINT8 7

// Kinds of the binary op, in Go: ops/params.go.
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

// Kinds of the unary op.
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

// Most axes that a kernel over three arrays walks; copies help where more remain.
#define MAX_DIMS 4
// Most axes that a kernel over two arrays walks: all there can be.
#define MAX_RANK 8

// Elements of an input and an output (copy, cast, unary): walk.glsl.
struct Walk2Params {
    uint n;                   // elements
    uint shape[MAX_RANK];     // axis 0 is the outermost; unused ones are 1
    uint in_strides[MAX_RANK];
    uint out_strides[MAX_RANK];
    uint in_offset;
    uint out_offset;
};

// Elements of two inputs and an output (binary, silu_mul): walk.glsl.
struct Walk3Params {
    uint n;
    uint shape[MAX_DIMS];
    uint a_strides[MAX_DIMS];
    uint b_strides[MAX_DIMS];
    uint out_strides[MAX_DIMS];
    uint a_offset;
    uint b_offset;
    uint out_offset;
};

// An array as rows along its last axis: rows.glsl. Part of other structs.
struct RowParams {
    uint rows;
    uint cols;
    uint shape[3];            // leading axes, the outermost first; unused ones are 1
    uint strides[3];
    uint col_stride;
    uint offset;
};

// transfer: raw bytes between two buffers, by 32-bit words. The masks say which
// bytes of the first and the last word are written.
struct TransferParams {
    uint words;
    uint src;                 // words into the bindings
    uint dst;
    uint first_mask;
    uint last_mask;           // if there is one word, first_mask alone counts
};

#ifdef __cplusplus
} // namespace kpx
#endif
#endif
