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

// The scratch memory of sample for each row: the best token of each part, sums of each part, choices of the levels,
// histograms, and a list of tokens.
#define SAMPLE_LEVELS 3
#define SAMPLE_BINS 2048                                  // of the first two levels; the last has half of them
#define SAMPLE_CHOICE 8                                   // words of a choice
#define SAMPLE_MASS (SAMPLE_CHOICE * (SAMPLE_LEVELS + 1)) // where the state has the weight of all tokens,
#define SAMPLE_LISTED (SAMPLE_MASS + 2)                   // and how many of them were to be listed
#define SAMPLE_STATE (SAMPLE_LISTED + 1)
#define SAMPLE_LIST 512    // tokens of the list, a key and an index each
#define SAMPLE_BIN_WORDS 3 // the number of tokens, and their weight
#define SAMPLE_HISTOGRAMS (SAMPLE_BIN_WORDS * (2 * SAMPLE_BINS + SAMPLE_BINS / 2))
#define SAMPLE_PART_WORDS 5

// sample: out is dense.
struct SampleParams {
    RowParams x;
    uint first_row; // of this dispatch
    uint slots;     // rows of scratch memory
    uint parts;     // workgroups per row
    uint run;       // columns of each
    uint settings_offset;
    uint settings_stride;
    uint settings_row; // from one row's to the next one's
    uint own_settings; // whether each row has its own
    uint has_step;
    uint step_offset;
    int step; // if there is none on the device
    uint scratch_offset;
    uint scratch_stride; // from row to row
    uint out_offset;
};

#endif
