// The part of Memory that is zero when it is given out.
#include <algorithm>

#include "abi/error.hpp"
#include "record/recording.hpp"
#include "record/transfer.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "runtime/tensors.hpp"
#include "runtime/timeline.hpp"
#include "stream/watchdog.hpp"

namespace kpx {

namespace {

// Submits value 1 of a timeline.
void submit(Device &device, Queue &queue, vk::CommandBuffer commands, Timeline &done) {
    const vk::Semaphore signal = done.semaphore();
    const uint64_t value = done.semaphore_value(1);
    const vk::TimelineSemaphoreSubmitInfo timeline({}, value);
    vk::SubmitInfo info({}, {}, commands, signal);
    info.pNext = &timeline;
    {
        std::lock_guard<std::mutex> lock(queue.mutex);
        device.check(queue.handle->submit(1, &info, nullptr), "vkQueueSubmit");
    }
    done.set_submitted(1);
}

} // namespace

std::shared_ptr<Buffer> Memory::allocate_counters(uint64_t bytes) {
    const uint64_t capacity = rounded(bytes);
    device_.count_allocation();
    std::unique_lock<std::mutex> lock(mutex_);
    std::shared_ptr<Block> block;
    uint64_t offset = RangeAllocator::kNone;
    for (size_t i = 0; i < counters_.size() && offset == RangeAllocator::kNone; i++) {
        block = counters_[i];
        offset = block->ranges->take(capacity);
    }
    if (offset == RangeAllocator::kNone) {
        block = create_counters(std::max(kCounterBytes, capacity));
        offset = block->ranges->take(capacity);
        counters_.push_back(block);
    }
    lock.unlock();
    return make_buffer(std::move(block), offset, bytes, capacity);
}

// Rare and small, so it waits for the zeroing.
std::shared_ptr<Block> Memory::create_counters(uint64_t bytes) {
    auto block = std::make_shared<Block>();
    block->tensor = make_tensor(device_, kp::Tensor::TensorTypes::eStorage, bytes);
    block->handle = buffer_of(*block->tensor);
    block->bytes = bytes;
    block->ranges = std::make_unique<RangeAllocator>(bytes);
    block->counters = true;
    zero(*block);
    reserved_ += bytes;
    blocks_++;
    return block;
}

void Memory::zero(const Block &block) {
    const std::shared_ptr<kp::Tensor> zeros = make_tensor(device_, kp::Tensor::TensorTypes::eHost, block.bytes);
    struct Work {
        Program program; // it keeps the memory
        Recording recording;
        Timeline done;
    };
    Queue &queue = device_.next_queue();
    Program program;
    append_transfer(device_, program, {buffer_of(*zeros), 0, zeros}, {block.handle, 0, block.tensor}, block.bytes);
    const std::shared_ptr<Device> device = device_.shared_from_this();
    const std::shared_ptr<Work> work(
        new Work{program, {device, queue, program, Recording::Runs::once}, Timeline(device)});
    submit(device_, queue, work->recording.commands(), work->done);
    try {
        work->done.wait(1, device_.watchdog().limit_ns());
    } catch (const Error &e) {
        if (e.code == KPX_TIMEOUT) {
            device_.mark_hung("the device hangs: counters were not zeroed in time");
        }
        if (device_.hung()) {
            device_.keep_forever(work);
        }
        device_.check_alive();
        throw;
    }
}

} // namespace kpx
