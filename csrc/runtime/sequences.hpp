// Kompute's sequences, each a command pool with one command buffer, lent to
// recordings and used again: making a pool and its memory costs a driver more
// than recording a window does.
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
    // A sequence whose commands will not run any more.
    void give_back(Entry entry) noexcept;

  private:
    static constexpr size_t kSpare = 64;

    Device &device_;
    std::mutex mutex_;
    std::vector<Entry> free_;
};

} // namespace kpx
