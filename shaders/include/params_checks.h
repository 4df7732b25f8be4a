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
    uint mixed; // workgroups with codes and digits of any size; others have large ones
};

#endif
