// Makes Vulkan calls of the shim fail in the dispatcher, which the shim owns.
#pragma once

#include "runtime/creation_check.hpp"
#include "runtime/vulkan_loader.hpp"

// Replaces a function of the dispatcher while this object lives. The watching
// functions stay in front of it.
template <typename Fn> class Failing {
  public:
    Failing(Fn &entry, const char *name, Fn replacement) : entry_(entry), name_(name) {
        entry_ = replacement;
        kpx::install_creation_hooks();
    }
    ~Failing() {
        entry_ = reinterpret_cast<Fn>(kpx::vulkan_instance().getProcAddr(name_));
        kpx::install_creation_hooks();
    }
    Failing(const Failing &) = delete;
    Failing &operator=(const Failing &) = delete;

  private:
    Fn &entry_;
    const char *name_;
};
#define FAILING(name, replacement)                                                                                     \
    const Failing<PFN_##name> failing_##name(VULKAN_HPP_DEFAULT_DISPATCHER.name, #name, replacement)
