// Results of the sums of parts that projection_parts and projection_fragments store, in the order of projection.comp:
// parts of a slice first, then slices, in the order of the columns.
//
// Before the include: math.glsl, projection_sums.glsl; SUM_UNITS, of 32 columns, of a row of x; SUM_LANES, the units of a
// slice, and SUM_PART, those of a part; part_sums[], and squares[], of each unit of a row of x.
#ifndef JOINED_SUMS_GLSL
#define JOINED_SUMS_GLSL

const uint SUM_PARTS = (SUM_UNITS + SUM_PART - 1) / SUM_PART, SLICE_PARTS = SUM_LANES / SUM_PART; // one or two
const uint KEPT_PARTS = SUM_PARTS == 0 ? 1 : SUM_PARTS; // arrays have elements

// at: the first part's sum; apart: from that to the next part's.
float joined_sum(uint at, uint apart) {
    float parts[KEPT_PARTS];
    [[unroll]] for (uint i = 0; i < SUM_PARTS; i++) {
        parts[i] = part_sums[at + i * apart];
    }
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < SUM_PARTS; i += SLICE_PARTS) {
        sum += SLICE_PARTS == 2 && i + 1 < SUM_PARTS ? parts[i] + parts[i + 1] : parts[i];
    }
    return sum;
}

// What a lane of projection.comp adds up of the squares of a row of x.
float squares_of_lane(uint row, uint lane) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < (SUM_UNITS + SUM_LANES - 1) / SUM_LANES; i++) {
        float v = squares[row * SUM_UNITS + min(lane + i * SUM_LANES, SUM_UNITS - 1)];
        sum += lane + i * SUM_LANES < SUM_UNITS ? v : 0.0;
    }
    return sum;
}

shared float lane_squares[SUM_LANES];

// 1/rms of a row; in the first SUM_LANES threads, of_lane is what their lanes add up. Called by all threads together.
float joined_factor(float of_lane, float eps) {
    if (gl_LocalInvocationIndex < SUM_LANES) {
        lane_squares[gl_LocalInvocationIndex] = of_lane;
    }
    barrier();
    float sums[SUM_LANES];
    [[unroll]] for (uint i = 0; i < SUM_LANES; i++) {
        sums[i] = lane_squares[i];
    }
    [[unroll]] for (uint bit = 1; bit < SUM_LANES; bit *= 2) {
        [[unroll]] for (uint i = 0; i < SUM_LANES; i += 2 * bit) {
            sums[i] += sums[i + bit];
        }
    }
    return norm_factor(sums[0], SUM_UNITS * 32, eps);
}

#endif
