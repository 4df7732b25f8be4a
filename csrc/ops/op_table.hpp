// The ops of csrc/ops/ops.def by index.
#pragma once

#include <string_view>

#include "ops/call.hpp"

namespace kpx {

struct OpRow {
    std::string_view name; // a string literal
    const OperandInfo *operands;
    uint32_t count;  // of operands
    bool variadic;   // the first operand may be repeated
    uint32_t params; // bytes
    void (*lower)(Lowering &, const OpCall &);
};

// Index of the op with this name, or -1.
int32_t find_op(const char *name);
// Throws KPX_INVALID for any other index.
const OpRow &op_row(int32_t index);

// Appends the dispatches of a call. Throws KPX_INVALID if it does not have the op's operands and parameters, or if they
// do not fit each other, and KPX_UNSUPPORTED if this device or these kernels do not support it. If it throws, the
// caller discards what it has appended.
void lower_op(int32_t index, Lowering &lowering, const OpCall &call);

} // namespace kpx
