#include "ops/lowering_util.hpp"

namespace kpx {

void lower_penalize(Lowering &lowering, const PenalizeCall &call) {
    const Array &logits = call.logits(), &counts = call.counts(), &penalties = call.penalties(), &rows = call.rows();
    if (logits.dtype != DT_FLOAT32 || counts.dtype != DT_UINT32 || penalties.dtype != DT_FLOAT32 ||
        rows.dtype != DT_INT32)
        invalid("dtypes {}, {}, {} and {}", dtype_name(logits.dtype), dtype_name(counts.dtype),
                dtype_name(penalties.dtype), dtype_name(rows.dtype));
    if (logits.rank != 2 || counts.rank != 2 || counts.dim(1) != logits.dim(1) || penalties.rank != 2 ||
        penalties.dim(0) != counts.dim(0) || penalties.dim(1) != PENALTY_FREQUENCY + 1 || rows.rank != 1 ||
        rows.dim(0) != logits.dim(0))
        invalid("operands do not match in shape");
    check_operands({&logits, &counts, &penalties, &rows});
    if (logits.size() == 0 || counts.size() == 0)
        return;
    PenalizeParams p{};
    p.n = uint32_t(logits.size());
    p.cols = uint32_t(logits.dim(1));
    p.logits_offset = uint32_t(logits.offset);
    p.logits_row = uint32_t(logits.stride(0));
    p.logits_col = uint32_t(logits.stride(1));
    p.counts_rows = uint32_t(counts.dim(0));
    p.counts_offset = uint32_t(counts.offset);
    p.counts_row = uint32_t(counts.stride(0));
    p.counts_col = uint32_t(counts.stride(1));
    p.penalties_offset = uint32_t(penalties.offset);
    p.penalties_row = uint32_t(penalties.stride(0));
    p.penalties_col = uint32_t(penalties.stride(1));
    p.rows_offset = uint32_t(rows.offset);
    p.rows_stride = uint32_t(rows.stride(0));
    lowering.dispatch(spec::penalize{.threads = element_threads(lowering.device())},
                      {.logits = {logits, KPX_READ_WRITE},
                       .counts = {counts, KPX_READ},
                       .penalties = {penalties, KPX_READ},
                       .rows = {rows, KPX_READ}},
                      p, grid_elements(lowering.device(), p.n));
}

} // namespace kpx
