// Dispatches of a region that begin before those that they depend on have ended, on devices that were opened for it.
//
// Between two dependent dispatches a barrier waits until the first has ended and its results are visible, and only
// then the second one's workgroups start and load their first weights. With a token's 150 short dispatches, that is a
// large part of its time. Without the barrier, workgroups of the second start as soon as there is room, load what does
// not depend on the first, and then ask memory for its results until they are there (shaders/include/overlap.glsl).
//
// Such a result is a tensor of the region's own, which one dispatch writes. It has memory that nothing else uses,
// and each replay begins by filling it with a number that stands for "not there yet". What else a dispatch touches
// must not conflict with earlier ones since the last barrier: otherwise it gets a barrier as usual.
//
// This relies on workgroups of earlier dispatches being started before those of later ones, since those that wait
// occupy the device. Vulkan promises no such order, and allows no reads without a barrier; overlap_check.hpp tests
// whether the device behaves like that.
#pragma once

#include "graph/graph.hpp"
#include "record/program.hpp"

namespace kpx {

class Device;

// Decides which uses are awaited, and gives their dispatches the constants of pipelines that await and mark them, which
// are not built yet. If the driver refuses one of these, neither this nor a later region of the device overlaps
// (pipelines.hpp).
void overlap_dispatches(Device &device, Program &program, const Graph &graph);

} // namespace kpx
