// What a device is checked with. A part of types.h.
#ifndef PARAMS_CHECKS_H
#define PARAMS_CHECKS_H

// overlap_check
struct OverlapCheckParams {
    uint words;  // of the dispatch before
    uint rounds; // of waiting for one of them
};
// fragment_check
struct FragmentCheckParams {
    uint seed; // of the codes and digits of the first workgroup
};

#endif
