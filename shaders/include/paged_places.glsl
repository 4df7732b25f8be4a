// Where a key and its value begin in pages.
//
// Before the include: the push constants p, of PagedSDPAParams.
#ifndef PAGED_PLACES_GLSL
#define PAGED_PLACES_GLSL

uint keys_from(uint page, uint head, uint token) {
    return p.k_offset + page * p.k_strides[0] + head * p.k_strides[1] + token * p.k_strides[2];
}

uint values_from(uint page, uint head, uint token) {
    return p.v_offset + page * p.v_strides[0] + head * p.v_strides[1] + token * p.v_strides[2];
}

#endif
