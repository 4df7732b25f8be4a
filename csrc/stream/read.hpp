// A copy of device memory that a stream makes, for the host to take later.
#pragma once

#include <memory>
#include <vector>

#include "runtime/staging.hpp"

namespace kpx {

class Device;

struct Read {
    struct Part {
        std::shared_ptr<HostBlock> block;
        uint64_t offset, bytes;
    };
    std::shared_ptr<Device> device; // outlives the blocks
    std::vector<Part> parts;
};

} // namespace kpx
