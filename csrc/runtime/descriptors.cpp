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
        if (free_.capacity() <= made_) {
            free_.reserve(2 * (made_ + 1));
        }
        made_++;
    }
    device_.count_allocation();
    const vk::DescriptorPoolSize size(vk::DescriptorType::eStorageBuffer, kDescriptors);
    const vk::DescriptorPoolCreateInfo info({}, kSets, size);
    vk::DescriptorPool made;
    const vk::Result result = device_.handle().createDescriptorPool(&info, nullptr, &made);
    if (result != vk::Result::eSuccess) {
        std::lock_guard<std::mutex> lock(mutex_);
        made_--;
    }
    device_.check(result, "vkCreateDescriptorPool");
    return made;
}

void DescriptorPools::give_back(std::vector<vk::DescriptorPool> &pools) noexcept {
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

std::vector<vk::DescriptorSet> DescriptorArena::allocate(const std::vector<Wanted> &wanted) {
    std::vector<vk::DescriptorSet> sets(wanted.size());
    std::vector<vk::DescriptorSetLayout> layouts;
    for (size_t first = 0; first < wanted.size();) {
        layouts.clear();
        uint32_t left = DescriptorPools::kDescriptors;
        for (size_t i = first; i < wanted.size() && layouts.size() < DescriptorPools::kSets; i++) {
            if (wanted[i].descriptors > left) {
                break;
            }
            left -= wanted[i].descriptors;
            layouts.push_back(wanted[i].layout);
        }
        pools_.reserve(pools_.size() + 1);
        pools_.push_back(device_.descriptors().take());
        const vk::DescriptorSetAllocateInfo info(pools_.back(), layouts);
        device_.check(device_.handle().allocateDescriptorSets(&info, &sets[first]), "vkAllocateDescriptorSets");
        first += layouts.size();
    }
    return sets;
}

} // namespace kpx
