#include "ops/op_table.hpp"

#include "abi/error.hpp"
#include "ops/gen_ops.hpp"

namespace kpx {

namespace {

const OpRow kRows[] = {
#define KPX_ROW(name, Name)                                                                                            \
    {#name,                                                                                                            \
     Name##Call::kOperands,                                                                                            \
     uint32_t(std::size(Name##Call::kOperands)),                                                                       \
     Name##Call::kVariadic,                                                                                            \
     sizeof(Name##Op),                                                                                                 \
     [](Lowering &lowering, const OpCall &call) {                                                                      \
         lower_##name(lowering, Name##Call(call.arrays, call.n, *static_cast<const Name##Op *>(call.params)));         \
     }},
    KPX_OPS(KPX_ROW)
#undef KPX_ROW
};

void check_call(const OpRow &row, const OpCall &call) {
    if (call.size != row.params) {
        invalid("{} bytes of parameters; {} has {}", call.size, row.name, row.params);
    }
    if (row.variadic ? call.n < row.count : call.n != row.count) {
        invalid("{} operands; {} has {}", call.n, row.name, row.count);
    }
    const uint32_t more = call.n - row.count; // of the first
    for (uint32_t i = 0; i < call.n; i++) {
        const OperandInfo &info = row.operands[i > more ? i - more : 0];
        if (!call.arrays[i] && !info.optional) {
            invalid("{} has no {}", row.name, info.name);
        }
    }
}

} // namespace

int32_t find_op(const char *name) {
    for (size_t i = 0; name != nullptr && i < std::size(kRows); i++) {
        if (kRows[i].name == name) {
            return int32_t(i);
        }
    }
    return -1;
}

const OpRow &op_row(int32_t index) {
    if (index < 0 || size_t(index) >= std::size(kRows)) {
        fail(KPX_INVALID, "no op {}", index);
    }
    return kRows[index];
}

void lower_op(int32_t index, Lowering &lowering, const OpCall &call) {
    const OpRow &row = op_row(index);
    check_call(row, call);
    row.lower(lowering, call);
}

} // namespace kpx
