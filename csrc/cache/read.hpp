// A read of a tensor's bytes: the only way from the device to the host.
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
    // Returns the address of the bytes. Throws KPX_TIMEOUT, or the error of the content.
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
    void submit(const Stream *caller); // the one that the call names, or null
    // The caller does not hold the device's mutex.
    void take_parts();
    void keep();

    std::shared_ptr<Device> device_; // outlives the blocks
    std::shared_ptr<Tensor> tensor_; // until the bytes are available
    const uint64_t offset_, bytes_;
    Tensor::Version version_{};    // of the content that is read
    std::shared_ptr<Point> point_; // of the copy; null if the host's copy was up to date
    std::vector<Part> parts_;
    std::mutex taking_;
    std::shared_ptr<HostMemory> memory_; // that contains data_, unless it is part of a block
    const uint8_t *data_ = nullptr;      // once available; guarded by taking_
};

} // namespace kpx
