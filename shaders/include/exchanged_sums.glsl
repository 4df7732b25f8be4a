// Sums of several values over the lanes of a subgroup at once: lanes exchange halves of their values until each has one.
//
// EXCHANGE_SUMS(values, count, lane) leaves in values[0] of lane l what lanes that differ from l in bits below count
// have of value l % count together; sums over the other lanes are left to the caller. count, a constant, is a power of
// two of at most 32. The steps are written out, since NVIDIA's driver does not unroll a loop over them whose inner loop
// depends on the step: it then moves all values in each turn.
#ifndef EXCHANGED_SUMS_GLSL
#define EXCHANGED_SUMS_GLSL

#define EXCHANGE_HALVES(values, count, lane, bit) \
    if (count > bit) { \
        bool upper = ((lane) & bit) != 0; \
        [[unroll]] for (uint i = 0; i < count / (2 * bit); i++) { \
            float kept = upper ? values[2 * i + 1] : values[2 * i]; \
            float given = upper ? values[2 * i] : values[2 * i + 1]; \
            values[i] = kept + subgroupShuffleXor(given, bit); \
        } \
    }

#define EXCHANGE_SUMS(values, count, lane) \
    EXCHANGE_HALVES(values, count, lane, 1) \
    EXCHANGE_HALVES(values, count, lane, 2) \
    EXCHANGE_HALVES(values, count, lane, 4) \
    EXCHANGE_HALVES(values, count, lane, 8) \
    EXCHANGE_HALVES(values, count, lane, 16)

#endif
