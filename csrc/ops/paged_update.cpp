#include "ops/lowering_util.hpp"

namespace kpx {

void lower_paged_update(Lowering &lowering, const PagedUpdateCall &call) {
    const Array &pages = call.pages(), &rows = call.rows(), &slots = call.slots();
    if (!is_float(pages.dtype) || !is_float(rows.dtype) || slots.dtype != DT_INT32)
        invalid("dtypes {}, {} and {}", dtype_name(pages.dtype), dtype_name(rows.dtype), dtype_name(slots.dtype));
    if (pages.rank != 4 || rows.rank != 3 || slots.rank != 1 || rows.dim(0) != slots.dim(0) ||
        rows.dim(1) != pages.dim(1) || rows.dim(2) != pages.dim(3))
        invalid("rows do not match pages and slots in shape");
    check_operands({&pages, &rows, &slots});
    if (rows.size() == 0 || pages.size() == 0)
        return;
    PagedUpdateParams p{};
    p.n = uint32_t(rows.size());
    p.heads = uint32_t(rows.dim(1));
    p.d = uint32_t(rows.dim(2));
    p.page = uint32_t(pages.dim(2));
    p.places = uint32_t(pages.dim(0) * pages.dim(2));
    fill(p.pages_strides, 4, pages.strides, 4, 0);
    fill(p.rows_strides, 3, rows.strides, 3, 0);
    p.slot_stride = uint32_t(slots.stride(0));
    p.pages_offset = uint32_t(pages.offset);
    p.rows_offset = uint32_t(rows.offset);
    p.slot_offset = uint32_t(slots.offset);
    lowering.dispatch(spec::paged_update{.threads = ELEMENT_THREADS, .y_dtype = pages.dtype, .x_dtype = rows.dtype},
                      {.y = {pages, KPX_READ_WRITE}, .x = {rows, KPX_READ}, .slots = {slots, KPX_READ}}, p,
                      grid_elements(lowering.device(), p.n));
}

} // namespace kpx
