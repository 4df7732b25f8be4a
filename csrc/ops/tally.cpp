#include "ops/lowering_util.hpp"

namespace kpx {

void lower_tally(Lowering &lowering, const TallyCall &call) {
    const Array &counts = call.counts(), &rows = call.rows(), &tokens = call.tokens(), &amounts = call.amounts();
    if (counts.dtype != DT_UINT32 || rows.dtype != DT_INT32 || tokens.dtype != DT_UINT32 || amounts.dtype != DT_UINT32)
        invalid("dtypes {}, {}, {} and {}", dtype_name(counts.dtype), dtype_name(rows.dtype), dtype_name(tokens.dtype),
                dtype_name(amounts.dtype));
    if (counts.rank != 2 || rows.rank != 1 || !same_shape(rows, tokens) || !same_shape(rows, amounts))
        invalid("operands do not match in shape");
    check_operands({&counts, &rows, &tokens, &amounts});
    if (rows.size() == 0 || counts.size() == 0)
        return;
    TallyParams p{};
    p.n = uint32_t(rows.size());
    p.counts_rows = uint32_t(counts.dim(0));
    p.cols = uint32_t(counts.dim(1));
    p.counts_offset = uint32_t(counts.offset);
    p.counts_row = uint32_t(counts.stride(0));
    p.counts_col = uint32_t(counts.stride(1));
    p.rows_offset = uint32_t(rows.offset);
    p.rows_stride = uint32_t(rows.stride(0));
    p.tokens_offset = uint32_t(tokens.offset);
    p.tokens_stride = uint32_t(tokens.stride(0));
    p.amounts_offset = uint32_t(amounts.offset);
    p.amounts_stride = uint32_t(amounts.stride(0));
    lowering.dispatch(spec::tally{.threads = element_threads(lowering.device())},
                      {.counts = {counts, KPX_READ_WRITE},
                       .rows = {rows, KPX_READ},
                       .tokens = {tokens, KPX_READ},
                       .amounts = {amounts, KPX_READ}},
                      p, grid_elements(lowering.device(), p.n));
}

} // namespace kpx
