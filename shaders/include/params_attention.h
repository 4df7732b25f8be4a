// Attention, and the preparation of its operands. A part of types.h.
#ifndef PARAMS_ATTENTION_H
#define PARAMS_ATTENTION_H

// rope: out [B, H, T, D] is contiguous.
struct RoPEParams {
    uint n; // threads with work: B * blocks of heads * T * (D - dims/2)
    uint heads;
    uint steps;
    uint cols; // D
    uint dims;
    uint x_strides[4];
    uint x_offset;
    uint out_offset;
    int offset;           // of the position, if none is read from the device
    uint position_offset; // of the device's positions, and their stride over B
    uint position_stride;
    uint freqs_offset;
    uint freqs_stride;
    float scale;
    float step_high; // exponent of 2 per pair, -2*log2(base)/dims, as a sum;
    float step_low;  // the high part has 12 bits, so that i * step_high is exact
};

// sdpa, sdpa_tiled, sdpa_coopmat and sdpa_fragments. Strides are those of B, H, T, D (of the mask B, Hq, Tq, Tk).
struct SDPAParams {
    uint rows;  // B * Hq * Tq
    uint heads; // of queries
    uint group; // query heads per key head
    uint queries;
    uint keys; // capacity; the length may be less
    uint d;    // elements of a head of q and k
    uint dv;   // of v
    uint q_strides[4];
    uint k_strides[4];
    uint v_strides[4];
    uint mask_strides[4];
    uint q_offset;
    uint k_offset;
    uint v_offset;
    uint mask_offset;
    uint length_offset;
    uint out_offset;
    uint causal;
    float scale;
};

// sdpa_split: rows of q, k or v for sdpa_coopmat, [rows, runs of 8 elements], or in an order for sdpa_fragments. A row
// is one step of one head; the heads of a group, which share a key head, are next to each other. Strides are those of
// the batch, of groups, of steps, and of the heads of a group.
struct SDPASplitParams {
    uint rows; // of all groups
    uint cols;
    uint runs;
    uint head_rows; // of a group, padded
    uint used_rows; // without the padding
    uint heads;     // groups of a batch
    uint group;     // heads of a group
    uint strides[4];
    uint col_stride;
    uint offset;
    uint length_offset;
};
// ORDER. The last three are for sdpa_fragments, which takes tiles of SPLIT_TILE keys.
#define SPLIT_ROWS 0
#define SPLIT_QUERIES 1
#define SPLIT_KEYS 2
#define SPLIT_VALUES 3
#define SPLIT_TILE 32
// Subgroups of a workgroup of sdpa_fragments.
#define SDPA_WAVES 4
// Added to the exponent of a row that has infinities or NaNs.
#define SPLIT_NOT_FINITE 65536
// The exponent of a row of zeros: below all others.
#define SPLIT_ZERO (-200)
// Rows are multiplied by 2^SPLIT_COMMON if that suffices, so that most have the same exponent: numbers up to 2^9 stay
// below 2^15, and two parts still hold 22 bits of a row whose largest number is SPLIT_SPARE powers of two smaller.
#define SPLIT_COMMON 6
#define SPLIT_SPARE 17

// attention_step: FLAGS.
#define STEP_Q_NORM 1
#define STEP_K_NORM 2
#define STEP_Q_GAIN 4
#define STEP_K_GAIN 8
#define STEP_DEVICE_POSITION 16
#define STEP_DEVICE_START 32
#define STEP_DEVICE_LENGTH 64
#define STEP_FREQS 128
#define STEP_TRADITIONAL 256
#define STEP_POSITIONS 512 // paged_heads: each row has its own

// attention_step: q, k, v and out are rows of heads, the cache [heads, capacity, D].
struct AttentionStepParams {
    uint dims;     // of a head that are rotated
    uint capacity; // of the cache
    uint keys;     // the most keys that may exist; the length may be less
    uint q_offset;
    uint q_stride; // from head to head
    uint k_offset;
    uint k_stride;
    uint v_offset;
    uint v_stride;
    uint q_gain_offset;
    uint k_gain_offset;
    uint freqs_offset;
    uint freqs_stride;
    uint keys_offset;
    uint keys_strides[2]; // of heads and tokens
    uint values_offset;
    uint values_strides[2];
    uint out_offset;
    uint out_stride;
    int position; // the number itself, or where the device's is in its array
    int start;
    int length_at;
    float scale; // of scores
    float rope_scale;
    float step_high; // as in RoPEParams
    float step_low;
    float q_eps;
    float k_eps;
};

// sdpa_combine: part [rows, ranges, dv + 2] to out [rows, dv], both contiguous. A part is the result over the keys of
// its range, their highest score, and the sum of their weights, in any unit that all parts have in common.
struct SDPACombineParams {
    uint rows;
    uint ranges;
    uint dv;
    uint out_offset;
};

// paged_sdpa. Strides are those of R, H, D (of q), P, H, L, D (of keys and values) and S, M (of the table); out and
// parts are contiguous.
struct PagedSDPAParams {
    uint rows;      // R
    uint key_heads; // Hkv
    uint group;     // query heads per key head
    uint d;         // elements of a head of q and keys
    uint dv;        // of values
    uint page;      // L
    uint pages;     // P
    uint sequences; // S
    uint capacity;  // M * L
    uint q_strides[3];
    uint k_strides[4];
    uint v_strides[4];
    uint table_strides[2];
    uint sequence_stride;
    uint length_stride;
    uint q_offset;
    uint k_offset;
    uint v_offset;
    uint table_offset;
    uint sequence_offset;
    uint length_offset;
    uint out_offset;
    float scale;
};

// paged_sdpa_coopmat2 takes the keys by ranges, whose results paged_sdpa_combine puts together. Where they begin does
// not depend on anything, so that a row's result does not either; the more keys, the longer, so that there are few.
#define PAGED_RANGES 5
#define PAGED_RANGE_BEGIN(i) ((i) == 0 ? 0 : (i) < 4 ? 128u << (i) : 4096)
// What they find, as [key heads, ranges, rows, query heads of a key head]: sums of weighted values in whole matrices,
// then a matrix of the highest score, the same in all columns, and one of weights that are still to be added up, and
// the exponent of the sums' unit, which is a NaN for rows that see a number that is not finite.
#define PAGED_PART_TOP 0
#define PAGED_PART_WEIGHTS 16
#define PAGED_PART_EXPONENT 32
#define PAGED_PART_STATS 36

// paged_heads. Strides are those of R, H (of q, k and v) and P, H, L (of keys and values); out is contiguous.
struct PagedHeadsParams {
    uint rows;
    uint q_strides[2];
    uint k_strides[2];
    uint v_strides[2];
    uint keys_strides[3];
    uint values_strides[3];
    uint page;   // L
    uint places; // P * L
    uint q_offset;
    uint k_offset;
    uint v_offset;
    uint q_gain_offset;
    uint k_gain_offset;
    uint freqs_offset;
    uint slot_offset;
    uint keys_offset;
    uint values_offset;
    uint out_offset;
    int position; // the number itself, or where the device's begin in their array
    float rope_scale;
    float step_high; // as in RoPEParams
    float step_low;
    float q_eps;
    float k_eps;
};

// paged_step. Strides are those of rows (of q, k and v), of P, H and L (of keys and values alike), and of the table; a
// row's heads, out, slots, sequences and lengths are contiguous. The rest is as in PagedHeadsParams and
// PagedSDPAParams.
struct PagedStepParams {
    uint page;
    uint pages;
    uint sequences;
    uint capacity;
    uint q_stride;
    uint k_stride;
    uint v_stride;
    uint pages_strides[3];
    uint table_strides[2];
    uint q_offset;
    uint k_offset;
    uint v_offset;
    uint q_gain_offset;
    uint k_gain_offset;
    uint freqs_offset;
    uint slot_offset;
    uint keys_offset;
    uint values_offset;
    uint table_offset;
    uint sequence_offset;
    uint length_offset;
    uint out_offset;
    int position;
    float rope_scale;
    float step_high;
    float step_low;
    float q_eps;
    float k_eps;
    float scale;
};

// paged_update. Strides are those of P, H, L, D (of pages) and R, H, D (of rows).
struct PagedUpdateParams {
    uint n; // elements of rows, or groups of them (CACHE_GROUP)
    uint heads;
    uint d;
    uint page;   // L
    uint places; // P * L
    uint pages_strides[4];
    uint rows_strides[3];
    uint slot_stride;
    uint pages_offset;
    uint rows_offset;
    uint slot_offset;
};

#endif
