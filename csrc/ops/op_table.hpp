// The ops of csrc/ops/ops.def by index.
#pragma once

#include <string_view>

#include "ops/call.hpp"

namespace kpx {

struct OpRow {
    std::string_view name; // of a literal
    const OperandInfo *operands;
    uint32_t count;  // of operands
    bool variadic;   // of the first there may be more
    uint32_t params; // bytes
    void (*lower)(Lowering &, const OpCall &);
};

// Index of the op with this name, or -1.
int32_t find_op(const char *name);
// Throws KPX_INVALID for an index that is none.
const OpRow &op_row(int32_t index);

// Appends the dispatches of a call. Throws KPX_INVALID if it does not have the op's operands and parameters, or they do
// not fit each other, and KPX_UNSUPPORTED if this device or these kernels cannot do what it asks for. Either leaves
// nothing that counts behind: the caller cuts the program off where the call began.
void lower_op(int32_t index, Lowering &lowering, const OpCall &call);

} // namespace kpx
