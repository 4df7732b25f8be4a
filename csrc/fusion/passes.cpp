#include "fusion/pass.hpp"

#include <cstdlib>
#include <sstream>

namespace kpx {

namespace {

bool disabled(const std::string &list, const std::string &name) {
    std::istringstream names(list);
    for (std::string one; std::getline(names, one, ',');) {
        if (one == name || one == "all") {
            return true;
        }
    }
    return false;
}

} // namespace

std::vector<Pass> &all_passes() {
    static std::vector<Pass> passes = {
#define KPX_PASS(name) {#name, pass_##name},
#include "fusion/passes.def"
#undef KPX_PASS
    };
    return passes;
}

PassSet::PassSet() {
    const char *list = getenv("KOMPUTE_GO_DISABLE_FUSION");
    plans_memory_ = list == nullptr || !disabled(list, "memory_plan");
    for (const Pass &pass : all_passes()) {
        if (list == nullptr || !disabled(list, pass.name)) {
            passes_.push_back(pass);
        }
    }
}

void PassSet::run(Graph &graph) const {
    for (const Pass &pass : passes_) {
        graph.set_pass(pass.name);
        pass.run(graph);
    }
}

} // namespace kpx
