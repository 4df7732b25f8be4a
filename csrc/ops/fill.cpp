#include "ops/lowering_util.hpp"

namespace kpx {

// Repeats the bits in both halves of an element twice as wide, until the element is a word.
static uint32_t repeat_bits(uint32_t bits, uint32_t bytes) {
    for (; bytes < 4; bytes *= 2)
        bits = (bits & ((1u << 8 * bytes) - 1)) | bits << 8 * bytes;
    return bits;
}

void fill_array(Lowering &lowering, const Array &out, uint32_t bits) {
    Axes axes = collapse({&out, &out});
    if (axes.size() == 0)
        return;
    const Units units = join_elements(axes, out.element_size());
    Walk2 walk(axes);
    lowering.dispatch(spec::fill{.threads = element_threads(lowering.device()),
                                 .y_dtype = units.dtype,
                                 .rank = walk.rank,
                                 .quads = units.quads},
                      {.y = {out, KPX_WRITE}}, FillParams{walk.params, repeat_bits(bits, out.element_size())},
                      grid_elements(lowering.device(), walk.params.n));
}

void lower_fill(Lowering &lowering, const FillCall &call) {
    check_operands({&call.out()});
    fill_array(lowering, call.out(), call.op().bits);
}

} // namespace kpx
