#include "fusion/passes.hpp"

#include <algorithm>
#include <string>

#include "abi/error.hpp"
#include "fusion/pass.hpp"

namespace kpx {

namespace {

constexpr std::string_view kMemoryPlan = "memory_plan", kAll = "all";

// Whether a list of names separated by commas has one that fits.
template <typename Fits> bool any_name(std::string_view list, Fits fits) {
    while (!list.empty()) {
        const std::string_view name = list.substr(0, list.find(','));
        list.remove_prefix(std::min(list.size(), name.size() + 1));
        if (fits(name)) {
            return true;
        }
    }
    return false;
}

bool disabled(std::string_view list, std::string_view name) {
    return any_name(list, [&](std::string_view one) { return one == name || one == kAll; });
}

void check_names(std::string_view list) {
    std::string known(kMemoryPlan);
    for (const Pass &pass : all_passes()) {
        known += ", " + std::string(pass.name);
    }
    any_name(list, [&](std::string_view name) {
        const auto named = [&](const Pass &pass) { return pass.name == name; };
        if (name != kAll && name != kMemoryPlan && std::none_of(all_passes().begin(), all_passes().end(), named)) {
            fail(KPX_INVALID, "no fusion pass {} to disable; there are all, {}", std::string(name), known);
        }
        return false;
    });
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

PassSet::PassSet(std::string_view list) : plans_memory_(!disabled(list, kMemoryPlan)) {
    check_names(list);
    for (const Pass &pass : all_passes()) {
        if (!disabled(list, pass.name)) {
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
