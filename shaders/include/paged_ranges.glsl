// Ranges of a row's keys, and how the results of their workgroups are combined: each slot of lanes has a
// running maximum and sum of its own for up to HEADS query heads of one key head, which are merged at the end of a
// range. A row has a range for every KEYS keys that it sees, up to MOST_SPLITS. Of several workgroups, the last to
// finish combines their results.
//
// Before the include: the constants SLOT_SPEC, HEADS, STORED (how many heads are stored together; divides HEADS),
// DV_CHUNK (elements of an output row in one workgroup), BATCH (a range begins at a multiple of it), KEYS and
// SHARED_SCALES (whether threads find the scales of ranges for one another); the push constants p with sequences,
// capacity, table_strides, table_offset and out_offset; parts[] and arrivals[]; y_store; SEQUENCE_OF and LENGTH_OF a
// row; VALUE_ELEMENTS of a head. After the include: put_heads and slot_sum_of.
#ifndef PAGED_RANGES_GLSL
#define PAGED_RANGES_GLSL

#include "log2_e.glsl"
#include "slots.glsl"
#include "last_arrival.glsl"

const float LOWEST = -3.4e38; // stands for a missing score; finite, so that differences are finite
const uint SLOTS = gl_WorkGroupSize.x / LANES;
const uint MOST_SPLITS = 16; // ranges of a row that are combined

shared float slot_highest[HEADS * SLOTS];
shared float slot_weight[HEADS * SLOTS];

float highest[HEADS]; // of the scores so far
float weight[HEADS];  // sum of exp2(score - highest)

// Puts the slot's sums of STORED heads where slot_sum_of finds them: element d of a slot's head h, of these.
void put_heads(uint first);
float slot_sum_of(uint slot, uint h, uint d);

// The number of tokens that the row sees; 0 if its sequence does not exist.
uint row_length(uint row) {
    uint sequence = uint(SEQUENCE_OF(row)); // both loads are in flight at once
    int length = clamp(LENGTH_OF(row), 0, int(p.capacity));
    return sequence < p.sequences ? uint(length) : 0;
}

uint table_row_of(uint row) {
    return p.table_offset + SEQUENCE_OF(row) * p.table_strides[0];
}

// Where a range stores its results for a head: sums, highest score and weight.
uint part_of(uint output_row, uint split) { return (output_row * gl_NumWorkGroups.z + split) * (VALUE_ELEMENTS + 2); }

// Scales all slots' sums of a head to one maximum, and adds up those of element d. Returns the sum, the maximum and the
// weight.
vec3 merge_slots(uint first, uint h, uint d) {
    float tops[SLOTS];
    float top = LOWEST;
    [[unroll]] for (uint s = 0; s < SLOTS; s++) {
        tops[s] = s < slot_count() ? slot_highest[(first + h) * SLOTS + s] : LOWEST;
        top = max(top, tops[s]);
    }
    precise float sum = 0.0, all = 0.0;
    [[unroll]] for (uint s = 0; s < SLOTS; s++) {
        if (s < slot_count()) {
            float keep = exp2(tops[s] - top);
            sum += slot_sum_of(s, h, d) * keep;
            all += slot_weight[(first + h) * SLOTS + s] * keep;
        }
    }
    return vec3(sum, top, all);
}

// Stores STORED heads' output rows, or this range's part of them. Called by all threads together.
void store_some(uint first, uint output_row, uint dv_first, bool is_all) {
    put_heads(first);
    barrier();
    uint count = min(VALUE_ELEMENTS - dv_first, DV_CHUNK);
    for (uint at = gl_LocalInvocationIndex; at < STORED * count; at += gl_WorkGroupSize.x) {
        uint h = at / count, d = at % count;
        vec3 merged = merge_slots(first, h, d);
        if (is_all) {
            float factor = merged.z == 0.0 ? 0.0 : 1.0 / merged.z;
            y_store(p.out_offset + (output_row + h) * VALUE_ELEMENTS + dv_first + d, merged.x * factor);
            continue;
        }
        uint to = part_of(output_row + h, gl_WorkGroupID.z);
        parts[to + dv_first + d] = merged.x;
        if (d == 0) { // the same for all that share the row
            parts[to + VALUE_ELEMENTS] = merged.y;
            parts[to + VALUE_ELEMENTS + 1] = merged.z;
        }
    }
}

// For each head and range, what its sums are multiplied by, and its weight times that.
shared float range_keep[HEADS * MOST_SPLITS], range_weight[HEADS * MOST_SPLITS];

// Finds these, with a thread for each head and range. Called once, by all threads together.
void scale_ranges(uint most, uint first_row, uint splits) {
    for (uint i = gl_LocalInvocationIndex; i < HEADS * most; i += gl_WorkGroupSize.x) {
        uint row = first_row + i / most, own = part_of(row, min(i % most, splits - 1)) + VALUE_ELEMENTS;
        float tops[MOST_SPLITS], own_top = parts[own], own_weight = parts[own + 1], top = LOWEST;
        [[unroll]] for (uint s = 0; s < most; s++) {
            tops[s] = parts[part_of(row, min(s, splits - 1)) + VALUE_ELEMENTS];
        }
        [[unroll]] for (uint s = 0; s < most; s++) {
            top = max(top, tops[s]);
        }
        float keep = i % most < splits ? exp2(own_top - top) : 0.0;
        range_keep[i] = keep;
        range_weight[i] = keep * own_weight;
    }
    barrier();
}

// Combines up to `most` ranges of a row: scales their results to one maximum and adds them up. All loads of a thread
// are in flight together. Called once, by all threads together.
void combine_up_to(uint most, uint first_row, uint dv_first, uint splits) {
    uint count = min(VALUE_ELEMENTS - dv_first, DV_CHUNK);
    for (uint from = 0; from < HEADS * count; from += gl_WorkGroupSize.x) {
        uint own = from + gl_LocalInvocationIndex, i = min(own, HEADS * count - 1);
        uint h = i / count, row = first_row + h, d = dv_first + i % count;
        float tops[MOST_SPLITS], weights[MOST_SPLITS], sums[MOST_SPLITS];
        [[unroll]] for (uint s = 0; s < most; s++) {
            uint at = part_of(row, min(s, splits - 1));
            sums[s] = parts[at + d];
            if (!SHARED_SCALES) {
                tops[s] = parts[at + VALUE_ELEMENTS];
                weights[s] = parts[at + VALUE_ELEMENTS + 1];
            }
        }
        if (SHARED_SCALES && from == 0) {
            scale_ranges(most, first_row, splits);
        }
        float top = LOWEST;
        [[unroll]] for (uint s = 0; s < most; s++) {
            top = max(top, SHARED_SCALES ? LOWEST : tops[s]);
        }
        precise float sum = 0.0, all = 0.0;
        [[unroll]] for (uint s = 0; s < most; s++) {
            float keep = SHARED_SCALES ? range_keep[h * most + s] : s < splits ? exp2(tops[s] - top) : 0.0;
            all += SHARED_SCALES ? range_weight[h * most + s] : keep * weights[s];
            sum += keep * sums[s];
        }
        if (own == i) {
            y_store(p.out_offset + row * VALUE_ELEMENTS + d, all == 0.0 ? 0.0 : sum / all);
        }
    }
}

// Stores the results of HEADS rows with that many ranges. Called by all threads together.
void combine(uint first_row, uint dv_first, uint splits) {
    if (splits <= 4) {
        combine_up_to(4, first_row, dv_first, splits);
    } else if (splits <= 8) {
        combine_up_to(8, first_row, dv_first, splits);
    } else {
        combine_up_to(MOST_SPLITS, first_row, dv_first, splits);
    }
}

// The number of ranges of a row of that many keys. A workgroup takes two batches of each slot faster than several
// workgroups can combine their results.
uint splits_of(uint length) {
    return length <= 2 * SLOTS * BATCH ? 1 : clamp((length + KEYS - 1) / KEYS, 1, gl_NumWorkGroups.z);
}

// How many keys each of them has; the last one may have fewer.
uint keys_of_split(uint length, uint splits) {
    uint per = (length + splits - 1) / splits;
    return (per + BATCH - 1) / BATCH * BATCH;
}

// Stores the results of this range for HEADS heads from output_row on. Called by all threads together.
void store_heads(uint output_row, uint dv_first, uint splits) {
    if (slot_lane() == 0) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            slot_highest[h * SLOTS + slot_index()] = highest[h];
            slot_weight[h * SLOTS + slot_index()] = weight[h];
        }
    }
    [[unroll]] for (uint h = 0; h < HEADS; h += STORED) {
        if (h != 0) {
            barrier(); // the heads before have been read
        }
        store_some(h, output_row + h, dv_first, splits == 1);
    }
    if (splits > 1 && is_last(workgroup_index(), splits)) {
        combine(output_row, dv_first, splits);
    }
}

#endif
