#include "runtime/descriptors.hpp"

#include "abi/error.hpp"
#include "runtime/device.hpp"

namespace kpx {

DescriptorPools::~DescriptorPools() {
    for (vk::DescriptorPool pool : free_) {
        device_.handle().destroyDescriptorPool(pool);
    }
}

vk::DescriptorPool DescriptorPools::take() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            const vk::DescriptorPool pool = free_.back();
            free_.pop_back();
            return pool;
        }
    }
    device_.count_allocation();
    const vk::DescriptorPoolSize size(vk::DescriptorType::eStorageBuffer, kDescriptors);
    return device_.handle().createDescriptorPool({{}, kSets, size});
}

void DescriptorPools::give_back(std::vector<vk::DescriptorPool> &pools) {
    for (vk::DescriptorPool pool : pools) {
        device_.handle().resetDescriptorPool(pool);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    free_.insert(free_.end(), pools.begin(), pools.end());
    pools.clear();
}

DescriptorArena::~DescriptorArena() {
    device_.descriptors().give_back(pools_);
}

vk::DescriptorSet DescriptorArena::allocate(vk::DescriptorSetLayout layout, uint32_t descriptors) {
    if (sets_left_ == 0 || descriptors_left_ < descriptors) {
        pools_.reserve(pools_.size() + 1);
        pools_.push_back(device_.descriptors().take());
        sets_left_ = DescriptorPools::kSets;
        descriptors_left_ = DescriptorPools::kDescriptors;
    }
    sets_left_--;
    descriptors_left_ -= descriptors;
    const vk::DescriptorSetAllocateInfo info(pools_.back(), layout);
    vk::DescriptorSet set;
    device_.check(device_.handle().allocateDescriptorSets(&info, &set), "vkAllocateDescriptorSets");
    return set;
}

} // namespace kpx
