// Kompute's sequences, each a command pool with one command buffer, lent to
// recordings and reused: making a pool and its memory takes a driver longer
// than recording a window.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <kompute/Sequence.hpp>

namespace kpx {

class Device;
struct Queue;

class Sequences {
  public:
    struct Entry {
        std::shared_ptr<kp::Sequence> sequence;
        vk::CommandPool pool; // the sequence's own
    };

    explicit Sequences(Device &device) : device_(device) {}

    // An empty sequence. All queues are of one family, so it serves any of them.
    Entry take(const Queue &queue);
    // Returns a sequence whose commands will not run again.
    void give_back(Entry entry) noexcept;

  private:
    static constexpr size_t kSpare = 64;

    Device &device_;
    std::mutex mutex_;
    std::vector<Entry> free_;
};

} // namespace kpx
