// The host data of a stream's uploads, packed into staging memory.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/staging.hpp"

namespace kpx {

class Device;

class UploadStaging {
  public:
    // A place in staging memory. It is used again when nobody owns the block anymore.
    struct Place {
        std::shared_ptr<HostBlock> block;
        uint64_t offset;
    };

    explicit UploadStaging(Device &device) : device_(device) {}

    // Copies the data to a place whose offset modulo 4 is phase. wrapped: it is the caller's memory, see copy_wrapped.
    Place put(const void *data, uint64_t bytes, uint64_t phase, bool wrapped);
    // Bytes whose copy to the device was appended and not submitted yet.
    uint64_t pending() const { return pending_; }
    void appended(uint64_t bytes) { pending_ += bytes; }
    void taken() { pending_ = 0; } // they were submitted, or discarded

  private:
    Place room(uint64_t bytes, uint64_t phase);

    Device &device_;
    std::shared_ptr<HostBlock> blocks_[2]; // being filled: small, large
    uint64_t pending_ = 0;
};

} // namespace kpx
