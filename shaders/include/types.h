// Shared by GLSL and C++: element types and the parameter struct of every
// kernel, by family in params_*.h. Fields are 32-bit, so both languages lay them
// out alike; a struct is a kernel's push constants and has at most 128 bytes.
#ifndef KPX_TYPES_H
#define KPX_TYPES_H

#include "gen_kinds.h"

#ifdef __cplusplus
#include <cstdint>
namespace kpx {
using uint = uint32_t;
#endif

// The most axes that a kernel over three arrays walks; arrays with more are copied.
#define MAX_DIMS 4

// The bits of a float32 that is not there yet, and those of a NaN (overlap.glsl).
#define OVERLAP_MISSING 0xffffffffu
#define OVERLAP_NAN 0x7fffffffu

// An array as rows along its last axis: rows.glsl. Part of other structs.
struct RowParams {
    uint rows;
    uint cols;
    uint shape[3]; // leading axes, padded in front with 1
    uint strides[3];
    uint col_stride;
    uint offset;
};

#include "params_attention.h"
#include "params_checks.h"
#include "params_elements.h"
#include "params_places.h"
#include "params_products.h"
#include "params_quantized.h"
#include "params_random.h"
#include "params_reduce.h"
#include "params_rows.h"

#ifdef __cplusplus
} // namespace kpx
#endif
#endif
