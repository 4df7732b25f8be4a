// The passes that regions go through: those of passes.def, unless they are disabled.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace kpx {

struct Pass {
    const char *name;
    void (*run)(Graph &graph);
};

// All passes, in order. Tests may add their own before they open a device.
std::vector<Pass> &all_passes();

// The passes that a device's regions go through.
class PassSet {
  public:
    // disabled: names of passes to leave out, separated by commas, or all. Throws KPX_INVALID for others.
    explicit PassSet(std::string_view disabled);
    bool empty() const { return passes_.empty(); }
    void run(Graph &graph) const;
    // Memory of a region is planned, unless "memory_plan" is named too.
    bool plans_memory() const { return plans_memory_; }

  private:
    std::vector<Pass> passes_;
    bool plans_memory_;
};

} // namespace kpx
