// Memory for tensors that only a region sees, and that it writes before it reads. The regions of a stream share it,
// since their replays run one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/memory.hpp"
#include "runtime/timeline.hpp"

namespace kpx {

struct Arena {
    std::shared_ptr<Buffer> buffer;
    uint64_t bytes;
    // When the last replay that uses it is done; null: there was none. A replay on another stream must wait for it.
    // Guarded by the device's mutex.
    std::shared_ptr<Timeline> timeline;
    uint64_t value = 0;
};

// The arenas of a stream's regions. Each is freed with the last region that has it.
class Arenas {
  public:
    // The smallest arena of at least that many bytes that is not among those taken; without one, it makes one. Throws
    // KPX_TOO_LARGE or KPX_OUT_OF_MEMORY.
    std::shared_ptr<Arena> take(Memory &memory, uint64_t bytes, const std::vector<std::shared_ptr<Arena>> &taken);

  private:
    std::vector<std::weak_ptr<Arena>> all_;
};

} // namespace kpx
