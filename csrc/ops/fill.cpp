#include "ops/lowering_util.hpp"

namespace kpx {

// The same bits in both halves of an element twice as wide, until it has the width of a word.
static uint32_t repeat_bits(uint32_t bits, uint32_t bytes) {
    for (; bytes < 4; bytes *= 2)
        bits = (bits & ((1u << 8 * bytes) - 1)) | bits << 8 * bytes;
    return bits;
}

void fill_array(Lowering &lowering, const Array &out, uint32_t bits) {
    Axes axes = collapse({&out, &out});
    if (axes.size() == 0)
        return;
    uint32_t dtype = join_elements(axes, out.element_size());
    Walk2 walk(axes);
    lowering.dispatch("fill", {ELEMENT_THREADS, dtype, walk.rank}, {{out, KPX_WRITE}},
                      FillParams{walk.params, repeat_bits(bits, out.element_size())},
                      grid_elements(lowering.device(), walk.params.n));
}

// Arrays: out, any layout.
Support lower_fill(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<FillOp>(call, 1);
    if (!checked.ok())
        return checked;
    checked = check_operands(lowering, {&call.arrays[0]});
    if (checked.ok())
        fill_array(lowering, call.arrays[0], call.as<FillOp>()->bits);
    return checked;
}

} // namespace kpx
