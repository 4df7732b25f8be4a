#include "ops/lowering_util.hpp"
#include "ops/paged.hpp"

namespace kpx {

bool is_cache_dtype(uint32_t dtype) {
    return is_float(dtype) || dtype == DT_UINT8;
}

int64_t cache_row(uint32_t dtype, int64_t d) {
    if (dtype != DT_UINT8)
        return d;
    return d % 4 == 0 ? d + 4 * int64_t(divide_up(d, CACHE_GROUP)) : -1;
}

int64_t cache_head(const Array &pages) {
    const int64_t row = pages.dim(3), group = CACHE_GROUP + 4;
    if (pages.dtype != DT_UINT8)
        return row;
    const int64_t d = row / group * CACHE_GROUP + std::max<int64_t>(0, row % group - 4);
    return cache_row(DT_UINT8, d) == row ? d : -1;
}

void check_cache_words(const Array &pages) {
    if (pages.dtype == DT_UINT8 && pages.size() != 0 && !quads_in_rows(pages))
        invalid("pages of uint8 do not lie in words of four bytes");
}

void lower_paged_update(Lowering &lowering, const PagedUpdateCall &call) {
    const Array &pages = call.pages(), &rows = call.rows(), &slots = call.slots();
    if (!is_cache_dtype(pages.dtype) || !is_float(rows.dtype) || slots.dtype != DT_INT32)
        invalid("dtypes {}, {} and {}", dtype_name(pages.dtype), dtype_name(rows.dtype), dtype_name(slots.dtype));
    if (pages.rank != 4 || rows.rank != 3 || slots.rank != 1 || rows.dim(0) != slots.dim(0) ||
        rows.dim(1) != pages.dim(1) || rows.dim(2) != cache_head(pages))
        invalid("rows do not match pages and slots in shape");
    check_cache_words(pages);
    check_operands({&pages, &rows, &slots});
    if (rows.size() == 0 || pages.size() == 0)
        return;
    PagedUpdateParams p{};
    const bool codes = pages.dtype == DT_UINT8; // by groups, not by elements
    p.n = uint32_t(rows.dim(0) * rows.dim(1) * (codes ? divide_up(rows.dim(2), CACHE_GROUP) : rows.dim(2)));
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
    lowering.dispatch(spec::paged_update{.threads = element_threads(lowering.device()),
                                         .y_dtype = pages.dtype,
                                         .x_dtype = rows.dtype},
                      {.y = {pages, KPX_READ_WRITE}, .x = {rows, KPX_READ}, .slots = {slots, KPX_READ}}, p,
                      grid_elements(lowering.device(), p.n));
}

} // namespace kpx
