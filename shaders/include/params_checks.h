// What a device is checked with. A part of types.h.
#ifndef PARAMS_CHECKS_H
#define PARAMS_CHECKS_H

// overlap_check
struct OverlapCheckParams {
    uint words;  // workgroups of the first dispatch
    uint rounds; // of its work, or of waiting
};

#endif
