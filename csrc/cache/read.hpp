// A read of a tensor's bytes: the one way from the device to the host.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cache/tensor.hpp"
#include "runtime/staging.hpp"
#include "stream/stream.hpp"

namespace kpx {

class Read {
  public:
    // kpx_read_create: starts the read.
    static std::unique_ptr<Read> start(const std::shared_ptr<Tensor> &tensor, const std::shared_ptr<Stream> &stream,
                                       kpx_read_when when, uint64_t offset, uint64_t bytes);
    // Returns where the bytes are. Throws KPX_TIMEOUT, or why there are none.
    const void *wait(uint64_t timeout_ns);
    ~Read();
    bool moved() const { return point_ != nullptr; }

  private:
    struct Part {
        std::shared_ptr<HostBlock> block;
        uint64_t offset, bytes;
    };

    Read(std::shared_ptr<Tensor> tensor, uint64_t offset, uint64_t bytes)
        : device_(tensor->device), tensor_(std::move(tensor)), offset_(offset), bytes_(bytes) {}
    // The caller holds the device's mutex.
    void take_host();
    void append(Stream &stream);
    void submit(Lock &lock);
    // It does not.
    void take_parts();
    void keep();

    std::shared_ptr<Device> device_; // outlives the blocks
    std::shared_ptr<Tensor> tensor_; // until the bytes are there
    const uint64_t offset_, bytes_;
    Tensor::Version version_{};    // of what is read
    std::shared_ptr<Point> point_; // that has the copy; null if the host had the bytes
    std::vector<Part> parts_;
    std::mutex taking_;
    std::shared_ptr<HostMemory> memory_; // that data_ lies in, unless that is a part
    const uint8_t *data_ = nullptr;      // once it is there; guarded by taking_
};

} // namespace kpx
