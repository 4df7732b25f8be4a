#include "runtime/device.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "abi/error.hpp"
#include "gen_kernels.hpp"
#include "runtime/compute_units.hpp"
#include "runtime/coopmat.hpp"
#include "runtime/descriptors.hpp"
#include "runtime/device_list.hpp"
#include "runtime/fragment_check.hpp"
#include "runtime/kernels.hpp"
#include "runtime/overlap_check.hpp"
#include "runtime/sequences.hpp"
#include "runtime/staging.hpp"
#include "runtime/vulkan_loader.hpp"
#include "stream/stream.hpp"
#include "stream/watchdog.hpp"

namespace kpx {

constexpr uint32_t kMostQueues = 4;

static std::string_view text(const char *given) {
    return given == nullptr ? "" : given;
}

std::shared_ptr<Device> Device::open(uint32_t index, const kpx_device_options &options) {
    const std::vector<ListedDevice> list = list_devices();
    if (index >= list.size()) {
        fail(KPX_INVALID, "no Vulkan device {}: there are {}", index, list.size());
    }
    const ListedDevice &chosen = list[index];
    if (!chosen.info.usable) {
        fail(KPX_NO_VULKAN, "{} cannot be used: {}", chosen.info.name, chosen.info.reason);
    }
    std::shared_ptr<Device> device(new Device(chosen.handle, options));
    device->overlaps_ = options.overlaps != 0 && passes_overlap_check(*device);
    device->traits_.overlaps = device->overlaps_;
    const Variants none;
    try {
        const FragmentCheck passed = check_fragments(*device);
        device->traits_.fragments = passed.matrices;
        device->traits_.fragment_codes = passed.codes;
    } catch (const Error &e) {
        if (e.code != KPX_OUT_OF_MEMORY || options.batch_variant != 0) {
            throw;
        }
    }
    device->traits_.batch_variant = options.batch_variant != 0 && device->traits_.fragments &&
                                    device->kernels().best(spec::projection_fragments::kKernel, none) != nullptr &&
                                    device->kernels().best(spec::projection_join::kKernel, none) != nullptr;
    return device;
}

Device::Device(vk::PhysicalDevice physical, const kpx_device_options &options)
    : physical_(std::make_shared<vk::PhysicalDevice>(physical)), limits_(physical.getProperties().limits),
      passes_(text(options.disabled_passes)) {
    const Mask mask(text(options.masked));
    mask.apply(limits_);
    const FeatureChain chain(physical, mask, text(options.features));
    features_ = chain.features();
    subgroup_sizes_ = chain.subgroup_sizes();
    binding_alignment_ = std::max<uint64_t>(limits_.minStorageBufferOffsetAlignment, 16);
    fill_traits();
    create_handle(chain, mask);
    try {
        get_queues();
        memory_ = std::make_unique<Memory>(*this, options.memory_budget);
        kernels_ = std::make_unique<Kernels>(*this, text(options.disabled));
        staging_ = std::make_unique<Staging>(*this);
        descriptors_ = std::make_unique<DescriptorPools>(*this);
        semaphores_ = std::make_unique<Semaphores>(*this);
        sequences_ = std::make_unique<Sequences>(*this);
        watchdog_ = std::make_unique<Watchdog>(*this, options.hang_ns);
    } catch (...) {
        kernels_.reset();
        device_->destroy();
        throw;
    }
}

void Device::create_handle(const FeatureChain &chain, const Mask &mask) {
    const int family = compute_family(*physical_);
    const vk::QueueFamilyProperties offered = physical_->getQueueFamilyProperties()[size_t(family)];
    const std::vector<float> priorities(mask.queues ? 1 : std::min(offered.queueCount, kMostQueues), 1.0f);
    for (size_t i = 0; i < priorities.size(); i++) {
        auto queue = std::make_unique<Queue>();
        queue->family = uint32_t(family);
        queue->timestamp_bits = mask.timestamps ? 0 : offered.timestampValidBits;
        queues_.push_back(std::move(queue));
    }
    vk::DeviceQueueCreateInfo queues({}, uint32_t(family), priorities);
    vk::DeviceCreateInfo info({}, queues, {}, chain.extensions());
    info.pNext = chain.head();
    vk::Device device;
    kpx::check(physical_->createDevice(&info, nullptr, &device), "vkCreateDevice");
    device_ = std::make_shared<vk::Device>(device);
}

void Device::get_queues() {
    for (size_t i = 0; i < queues_.size(); i++) {
        const vk::Queue queue = device_->getQueue(queues_[i]->family, uint32_t(i));
        if (!queue) {
            fail(KPX_DRIVER, "vkGetDeviceQueue gave no queue");
        }
        queues_[i]->handle = std::make_shared<vk::Queue>(queue);
    }
}

void Device::fill_traits() {
    vk::PhysicalDeviceSubgroupProperties subgroup;
    vk::PhysicalDeviceProperties2 properties;
    properties.pNext = &subgroup;
    physical_->getProperties2(&properties);
    traits_.subgroup_size = subgroup.subgroupSize;
    traits_.max_workgroup_invocations = limits_.maxComputeWorkGroupInvocations;
    std::copy(limits_.maxComputeWorkGroupCount.begin(), limits_.maxComputeWorkGroupCount.end(),
              traits_.max_workgroup_count);
    traits_.max_shared_bytes = limits_.maxComputeSharedMemorySize;
    // The limits may be masked.
    traits_.max_tensor_bytes =
        std::min<uint64_t>(largest_tensor(*physical_), whole_units(limits_.maxStorageBufferRange));
    traits_.compute_units = compute_units(*physical_);
    traits_.storage16 = features_.storage16;
    traits_.float16 = features_.float16;
    traits_.subgroup_arithmetic = features_.subgroup;
    traits_.dot8 = features_.fast_dot8;
    traits_.byte_matrices_of_8 = !features_.coopmat8_khr || has_byte_matrices_khr(*physical_, 8);
    traits_.is_cpu = properties.properties.deviceType == vk::PhysicalDeviceType::eCpu;
    traits_.small_code = features_.small_code;
    traits_.as_gpu = switched_on("KOMPUTE_GO_FUSION_ON_CPU");
}

// Streams and tensors hold the device, so none is left now, and all work is done.
Device::~Device() {
    if (hung_) {
        leak();
        return;
    }
    (void)VULKAN_HPP_DEFAULT_DISPATCHER.vkDeviceWaitIdle(*device_);
    staging_.reset();
    sequences_.reset();
    descriptors_.reset();
    semaphores_.reset();
    kernels_.reset();
    memory_.reset();
    device_->destroy();
#ifdef __GLIBC__
    // What the driver and its compiler freed would stay in the arenas of the threads on which
    // they ran: a process that replaces its device would grow with each one.
    (void)malloc_trim(0);
#endif
}

// Destroying any of it could wait for the device, or free what the device still uses.
void Device::leak() {
    (void)staging_.release();
    (void)sequences_.release();
    (void)descriptors_.release();
    (void)semaphores_.release();
    (void)kernels_.release();
    (void)memory_.release();
}

namespace {

struct Kept {
    std::shared_ptr<Device> device;
    std::shared_ptr<const void> what;
};
struct AllKept {
    std::mutex mutex;
    std::vector<Kept> list;
};
AllKept &all_kept() {
    static AllKept &all = *new AllKept; // never destroyed
    return all;
}

} // namespace

void Device::keep_forever(std::shared_ptr<const void> what) {
    AllKept &all = all_kept();
    std::lock_guard<std::mutex> lock(all.mutex);
    all.list.push_back({shared_from_this(), std::move(what)});
}

void Device::free_kept() {
    std::vector<Kept> freed;
    {
        AllKept &all = all_kept();
        std::lock_guard<std::mutex> lock(all.mutex);
        std::swap(freed, all.list);
    }
    for (Kept &kept : freed) {
        kept.device->hung_ = false; // it stays lost
        kept.what.reset();
    }
}

void Device::mark_hung(std::string what) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!lost_) {
        hang_ = std::move(what);
        hung_ = true;
        lost_ = true;
    }
}

void Device::mark_hung_queue() noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!hung_) {
        hang_ = std::move(hung_queue_);
        hung_ = true;
        lost_ = true;
    }
}

Queue &Device::next_queue() {
    return *queues_[next_queue_++ % queues_.size()];
}

void Device::add_stream(const std::shared_ptr<Stream> &stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.erase(std::remove_if(streams_.begin(), streams_.end(), [](const auto &s) { return s.expired(); }),
                   streams_.end());
    streams_.push_back(stream);
}

std::vector<std::shared_ptr<Stream>> Device::streams() {
    std::vector<std::shared_ptr<Stream>> alive;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::weak_ptr<Stream> &weak : streams_) {
        if (std::shared_ptr<Stream> stream = weak.lock()) {
            alive.push_back(std::move(stream));
        }
    }
    return alive;
}

void Device::collect() {
    for (const std::shared_ptr<Stream> &stream : streams()) {
        stream->collect();
    }
}

void Device::await_work() {
    for (const std::shared_ptr<Stream> &stream : streams()) {
        stream->timeline()->wait(stream->timeline()->queued(), UINT64_MAX);
    }
}

void Device::settle() {
    try {
        await_work();         // which detects a hang, unlike vkDeviceWaitIdle
    } catch (const Error &) { // unless the device is lost, it is waited for below
    }
    std::vector<std::unique_lock<std::mutex>> locks;
    for (const auto &queue : queues_) {
        locks.emplace_back(queue->mutex); // vkDeviceWaitIdle counts as a use of every queue
    }
    if (!lost_) {
        check(vk::Result(VULKAN_HPP_DEFAULT_DISPATCHER.vkDeviceWaitIdle(*device_)), "vkDeviceWaitIdle");
    }
    locks.clear();
    collect();
    kernels_->save_cache();
}

// Any failure other than a lost device is a lack of memory, which may be temporary.
void Device::drain(Queue &queue) noexcept {
    constexpr int kTries = 100;
    constexpr std::chrono::milliseconds kPause{1};
    for (int i = 0; i < kTries; i++) {
        if (hung_) {
            return;
        }
        std::unique_lock<std::mutex> lock(queue.mutex);
        const VkResult result = VULKAN_HPP_DEFAULT_DISPATCHER.vkQueueWaitIdle(*queue.handle);
        lock.unlock();
        if (result == VK_ERROR_DEVICE_LOST) {
            mark_lost();
        }
        if (result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST) {
            return;
        }
        std::this_thread::sleep_for(kPause);
    }
    mark_hung_queue();
}

void Device::check_alive() const {
    if (lost_) {
        fail(KPX_DEVICE_LOST, "{}", hung_ ? hang() : "the device is lost");
    }
}

void Device::check(vk::Result result, const char *what) {
    if (result == vk::Result::eErrorDeviceLost) {
        mark_lost();
    }
    kpx::check(result, what);
}

void Device::count_tensor(int64_t bytes, int64_t tensors) {
    live_tensors_ += uint64_t(tensors);
    const uint64_t live = live_bytes_ += uint64_t(bytes);
    uint64_t peak = peak_bytes_;
    while (peak < live && !peak_bytes_.compare_exchange_weak(peak, live)) {
    }
}

void Device::count_upload(uint64_t bytes) {
    uploads_++;
    upload_bytes_ += bytes;
}

kpx_device_stats Device::stats() {
    kpx_device_stats out{};
    out.reserved_bytes = memory_->reserved();
    out.pipelines_built = kernels_->pipelines_built();
    out.refusals = kernels_->refusals();
    out.max_tensor_bytes = traits_.max_tensor_bytes;
    out.overlaps = overlaps_;
    out.batch_variant = traits_.batch_variant;
    out.allocations = allocations_;
    out.validation_messages = validation_messages();
    out.host_bytes = host_memory_->in_use();
    out.uploads = uploads_;
    out.upload_bytes = upload_bytes_;
    out.cache_hits = cache_hits_;
    out.cache_misses = cache_misses_;
    out.live_tensors = live_tensors_;
    out.live_bytes = live_bytes_;
    out.peak_bytes = peak_bytes_;
    return out;
}

} // namespace kpx
