// The ops of csrc/ops/ops.def by index.
#pragma once

#include <string_view>

#include "ops/op.hpp"

namespace kpx {

struct OpRow {
    std::string_view name; // of a literal
    LowerFn lower;
};

// Index of the op with this name, or -1.
int32_t find_op(const char *name);
// Throws KPX_INVALID for an index that is none.
const OpRow &op_row(int32_t index);

} // namespace kpx
