// Host memory that the device can read and write: mapped eHost tensors, lent to
// uploads and downloads, and reused when the device is done with them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <kompute/Tensor.hpp>

#include "runtime/numbered.hpp"

namespace kpx {

class Device;

struct HostBlock {
    std::shared_ptr<kp::Tensor> tensor;
    Numbered<vk::Buffer> buffer;
    uint8_t *data;
    uint64_t bytes;
    uint64_t used = 0; // bytes handed out since it was taken
};

class Staging {
  public:
    static constexpr uint64_t kSmall = uint64_t(256) << 10;
    static constexpr uint64_t kLarge = uint64_t(8) << 20;
    enum class For { upload, download };

    explicit Staging(Device &device);

    // A block of kSmall bytes, or of kLarge if bytes is more. It returns to the
    // pool when its last owner releases it.
    std::shared_ptr<HostBlock> take(For purpose, uint64_t bytes);

  private:
    static constexpr size_t kSpare[2] = {32, 4}; // blocks of one kind kept for reuse: small, large

    Device &device_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<HostBlock>> free_[2][2]; // [purpose][large]
};

} // namespace kpx
