// Random numbers, and the choice of tokens. A part of types.h.
#ifndef PARAMS_RANDOM_H
#define PARAMS_RANDOM_H

// random: out is contiguous.
struct RandomParams {
    uint n;
    uint state_offset;
    uint state_stride;
    uint out_offset;
    float first;
    float scale;
    float limit;
};

#define SAMPLE_MOST_THREADS 256 // of a workgroup

// The scratch memory of sample for each row: a histogram, a state, a list of tokens, and SAMPLE_PART_WORDS for each
// part, which are its best tokens and the sum of its weights.
#define SAMPLE_STAGES 3 // in which parts share a row
#define SAMPLE_BINS 2048
#define SAMPLE_PLANES 4 // of bins: the number of tokens, and 22 bits each of their weight, so that no sum carries
#define SAMPLE_BEST (SAMPLE_PLANES * SAMPLE_BINS) // the best token, and bins_of_distance
#define SAMPLE_LISTED (SAMPLE_BEST + 3)           // the number of tokens on the list
#define SAMPLE_ARRIVED (SAMPLE_BEST + 4)          // that of parts that have arrived
#define SAMPLE_MASS (SAMPLE_BEST + 5)             // the weight of all tokens, 22 bits at a time
#define SAMPLE_CLEARED (SAMPLE_BEST + 8)          // what comes before it is zero at first
#define SAMPLE_LIST_FROM SAMPLE_CLEARED
#define SAMPLE_LIST 512 // tokens, each its key, index, weight, and weight at temperature 1
#define SAMPLE_LIST_WORDS 6
#define SAMPLE_PARTS_FROM (SAMPLE_LIST_FROM + SAMPLE_LIST_WORDS * SAMPLE_LIST)
#define SAMPLE_MOST_PARTS 1024
#define SAMPLE_PART_BESTS 4 // at most
#define SAMPLE_PART_WORDS (3 * SAMPLE_PART_BESTS + 2)
#define SAMPLE_PART_SUM (3 * SAMPLE_PART_BESTS) // where a part has its sum

// sample: out is dense.
struct SampleParams {
    RowParams x;
    uint first_row; // of this dispatch
    uint slots;     // rows of scratch memory
    uint parts;     // workgroups per row
    uint run;       // columns of each
    uint bests;     // groups of the threads of a part, of which each finds its best token
    uint settings_offset;
    uint settings_stride;
    uint settings_row; // from one row's to the next one's
    uint own_settings; // whether each row has its own
    uint has_step;
    uint step_offset;
    int step; // if there is none on the device
    uint scratch_offset;
    uint scratch_stride; // from row to row; a multiple of 4, like the offset
    uint out_offset;
};

// tally: amounts of places in counts.
struct TallyParams {
    uint n; // amounts
    uint counts_rows;
    uint cols; // of counts
    uint counts_offset;
    uint counts_row; // strides
    uint counts_col;
    uint rows_offset;
    uint rows_stride;
    uint tokens_offset;
    uint tokens_stride;
    uint amounts_offset;
    uint amounts_stride;
};

// penalize: rows of logits, in place.
struct PenalizeParams {
    uint n; // logits
    uint cols;
    uint logits_offset;
    uint logits_row; // strides
    uint logits_col;
    uint counts_rows;
    uint counts_offset;
    uint counts_row;
    uint counts_col;
    uint penalties_offset;
    uint penalties_row;
    uint penalties_col;
    uint rows_offset;
    uint rows_stride;
};

// mask: rows of logits, in place, and words of bits.
struct MaskParams {
    uint n; // logits
    uint cols;
    uint logits_offset;
    uint logits_row; // strides
    uint logits_col;
    uint allowed_offset;
    uint allowed_row;
    uint allowed_col;
};

#endif
