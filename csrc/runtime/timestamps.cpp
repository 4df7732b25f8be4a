#include "runtime/timestamps.hpp"

#include "abi/error.hpp"
#include "runtime/device.hpp"

namespace kpx {

Timestamps::Timestamps(std::shared_ptr<Device> device, const Queue &queue, uint32_t n)
    : device_(std::move(device)), valid_bits_(queue.timestamp_bits), period_(double(device_->limits().timestampPeriod)),
      room_(n) {
    require(queue);
    const vk::QueryPoolCreateInfo info({}, vk::QueryType::eTimestamp, n);
    device_->check(device_->handle().createQueryPool(&info, nullptr, &pool_), "vkCreateQueryPool");
    device_->count_allocation();
}

Timestamps::~Timestamps() {
    device_->handle().destroyQueryPool(pool_);
}

void Timestamps::require(const Queue &queue) {
    if (queue.timestamp_bits == 0) {
        fail(KPX_UNSUPPORTED, "this device's compute queue writes no timestamps");
    }
}

void Timestamps::reset(vk::CommandBuffer commands) {
    commands.resetQueryPool(pool_, 0, room_);
}

void Timestamps::write(vk::CommandBuffer commands) {
    if (written_ == room_) {
        fail(KPX_INTERNAL, "more than {} timestamps", room_);
    }
    commands.writeTimestamp(vk::PipelineStageFlagBits::eComputeShader, pool_, written_++);
}

std::vector<uint64_t> Timestamps::read() const {
    std::vector<uint64_t> ticks(written_);
    device_->check(device_->handle().getQueryPoolResults(pool_, 0, written_, written_ * sizeof(uint64_t), ticks.data(),
                                                         sizeof(uint64_t), vk::QueryResultFlagBits::e64),
                   "vkGetQueryPoolResults");
    const uint64_t mask = valid_bits_ >= 64 ? UINT64_MAX : (uint64_t(1) << valid_bits_) - 1;
    std::vector<uint64_t> out;
    out.reserve(ticks.size());
    const auto first = uint64_t(double(ticks[0] & mask) * period_);
    for (uint64_t tick : ticks) { // the counter may have wrapped since the first
        out.push_back(first + uint64_t(double((tick - ticks[0]) & mask) * period_));
    }
    return out;
}

} // namespace kpx
