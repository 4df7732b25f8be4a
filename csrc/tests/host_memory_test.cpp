// The pool of host memory behind tensors.
#include <algorithm>
#include <cstring>

#include "abi/error.hpp"
#include "cache/host_memory.hpp"
#include "test.hpp"

TEST(freed_host_memory_serves_the_next_tensor_of_its_size) {
    const auto pool = std::make_shared<kpx::HostPool>();
    std::shared_ptr<kpx::HostMemory> first = pool->take(1000);
    CHECK(first->bytes == 1000 && pool->in_use() >= 1000 && pool->in_use() < 1250 && uintptr_t(first->data) % 16 == 0);
    const uint8_t *const freed = first->data;
    memset(first->data, 0xff, 1000);
    first.reset();
    CHECK(pool->in_use() == 0);
    const auto again = pool->take(990), other = pool->take(1000);
    CHECK(again->data == freed && again->bytes == 990 && other->data != freed);
    CHECK(pool->take(2000)->data != freed);
}

TEST(zeroed_host_memory_is_zero_after_dirty_memory_was_freed) {
    const auto pool = std::make_shared<kpx::HostPool>();
    constexpr uint64_t kBytes = 5000;
    for (int i = 0; i < 3; i++) {
        memset(pool->take(kBytes)->data, 0xff, kBytes);
        const auto zeros = pool->zeroed(kBytes);
        CHECK(std::all_of(zeros->data, zeros->data + kBytes, [](uint8_t byte) { return byte == 0; }));
        memset(zeros->data, 0xff, kBytes);
    }
}

TEST(host_memory_keeps_its_pool_and_wrapped_memory_does_not_count) {
    auto pool = std::make_shared<kpx::HostPool>();
    const std::weak_ptr<kpx::HostPool> alive = pool;
    const uint8_t mine[4] = {1, 2, 3, 4};
    const auto wrapped = kpx::HostPool::wrap(mine, 4);
    CHECK(wrapped->data == mine && wrapped->bytes == 4 && pool->in_use() == 0);
    auto memory = pool->take(64);
    pool.reset();
    CHECK(!alive.expired());
    memory.reset();
    CHECK(alive.expired());
}

TEST(wrapped_memory_that_cannot_be_read_is_an_error) {
    const uint8_t from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t to[8] = {};
    kpx::copy_wrapped(to, from, 8);
    CHECK(memcmp(to, from, 8) == 0);
#ifdef __linux__
    try {
        kpx::copy_wrapped(to, reinterpret_cast<const void *>(uintptr_t(1) << 12), 8); // nothing is mapped there
        CHECK(!"it was read");
    } catch (const kpx::Error &e) {
        CHECK(e.code == KPX_UNREADABLE);
    }
#endif
}
