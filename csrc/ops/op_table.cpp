#include "ops/op_table.hpp"

#include "abi/error.hpp"

namespace kpx {

namespace {

const OpRow kRows[] = {
#define KPX_OP(name) {#name, lower_##name},
#include "ops/ops.def"
#undef KPX_OP
    {{}, nullptr}};

constexpr int32_t kCount = int32_t(sizeof kRows / sizeof kRows[0]) - 1;

} // namespace

int32_t find_op(const char *name) {
    for (int32_t i = 0; name != nullptr && i < kCount; i++) {
        if (kRows[i].name == name) {
            return i;
        }
    }
    return -1;
}

const OpRow &op_row(int32_t index) {
    if (index < 0 || index >= kCount) {
        fail(KPX_INVALID, "no op %d", index);
    }
    return kRows[index];
}

} // namespace kpx
