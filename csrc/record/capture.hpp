// What a stream collects for a region: ops that are kept instead of run, and
// which tensors they use.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/tensor.hpp"
#include "record/append.hpp"
#include "record/window.hpp"

namespace kpx {

// What a region does with a tensor of the caller.
struct RegionUse {
    std::shared_ptr<Tensor> tensor;
    bool needs;  // it reads content from before the replay
    bool writes; // it writes at least part of it
};

class Capture {
  public:
    explicit Capture(Device &device) : window(device, true), device_(device) {}
    ~Capture();
    Capture(const Capture &) = delete;
    Capture &operator=(const Capture &) = delete;

    // call: a RawCall or a DispatchCall.
    template <typename Call> void append(const Call &call) {
        make_room(call.arrays, call.n);
        if (append_call(device_, window, call)) {
            note_uses(call.arrays, call.n);
        }
    }
    // Releases the region's own tensors, whose handles are gone and that have no content, and returns the caller's.
    // These remain in use, so that they do not become the own ones of another capture before the region uses them.
    std::vector<RegionUse> release_own();

    Window window;

  private:
    // So that note_uses() cannot fail: a call that is in the window must be among the uses.
    void make_room(const kpx_array *arrays, uint32_t n);
    void note_uses(const kpx_array *arrays, uint32_t n) noexcept;
    void note(const std::shared_ptr<Tensor> &tensor, bool needs, bool writes);

    Device &device_;
    std::vector<RegionUse> uses_;
    static constexpr size_t kUnused = SIZE_MAX;
    std::unordered_map<const Tensor *, size_t> index_; // of uses_; kUnused: no call in the window has used it
};

} // namespace kpx
