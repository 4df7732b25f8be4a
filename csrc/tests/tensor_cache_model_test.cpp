// Compares the tensor cache with a model on the host, in random sequences of
// calls: views of shared storage, several streams, regions, pending reads. A
// second run has a driver that refuses calls, and a third one lacks host memory:
// a call that fails must have done nothing, and everything that can be read must
// be right.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>

#include "failing.hpp"
#include "failing_memory.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 32, kHalf = kWords / 2;

struct Entry {
    Storage storage;
    std::vector<uint32_t> words;
};

struct Pending {
    Read read;
    std::vector<uint32_t> want;
};

struct Sum {
    uint32_t a, b, out;                // entries
    uint32_t at_a, at_b, at_out, size; // words
};

struct Captured {
    Region region;
    std::vector<Sum> program;
};

// ---- Calls that fail ----

enum Function { submit, pool, commands, begin, end, descriptors, sets, memory, map, kFunctions };
std::atomic<int> failing{-1}; // the function whose call fails
std::atomic<int> calls_before{0};

bool refuse(Function function) {
    if (failing != function || calls_before-- > 0) {
        return false;
    }
    failing = -1;
    return true;
}

template <typename Fn> Fn real(const char *name) {
    return reinterpret_cast<Fn>(kpx::vulkan_instance().getProcAddr(name));
}

#define REFUSING(name, function, parameters, arguments)                                                                \
    VkResult refusing_##name parameters {                                                                              \
        static const auto pass_on = real<PFN_##name>(#name);                                                           \
        return refuse(function) ? VK_ERROR_OUT_OF_DEVICE_MEMORY : pass_on arguments;                                   \
    }
REFUSING(vkQueueSubmit, submit, (VkQueue q, uint32_t n, const VkSubmitInfo *info, VkFence f), (q, n, info, f))
REFUSING(vkCreateCommandPool, pool,
         (VkDevice d, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *c, VkCommandPool *out),
         (d, info, c, out))
REFUSING(vkAllocateCommandBuffers, commands,
         (VkDevice d, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out), (d, info, out))
REFUSING(vkBeginCommandBuffer, begin, (VkCommandBuffer b, const VkCommandBufferBeginInfo *info), (b, info))
REFUSING(vkEndCommandBuffer, end, (VkCommandBuffer b), (b))
REFUSING(vkCreateDescriptorPool, descriptors,
         (VkDevice d, const VkDescriptorPoolCreateInfo *info, const VkAllocationCallbacks *c, VkDescriptorPool *out),
         (d, info, c, out))
REFUSING(vkAllocateDescriptorSets, sets, (VkDevice d, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out),
         (d, info, out))
REFUSING(vkAllocateMemory, memory,
         (VkDevice d, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *c, VkDeviceMemory *out),
         (d, info, c, out))
REFUSING(vkMapMemory, map,
         (VkDevice d, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize n, VkMemoryMapFlags flags, void **out),
         (d, m, at, n, flags, out))

enum class Faults { none, driver, memory };

class Machine {
  public:
    explicit Machine(uint64_t seed, Faults faults) : faults_(faults), random_{seed} {
        for (int i = 0; i < 3; i++) {
            streams_.push_back(new_stream(device_, i == 2 ? KPX_STREAM_TRANSFERS : KPX_STREAM_COMPUTE));
        }
        for (uint32_t i = 0; i < 6; i++) {
            entries_.push_back({nullptr, std::vector<uint32_t>(kWords)});
            renew(i);
        }
    }

    void step() {
        if (faults_ == Faults::driver && random_.below(4) == 0) {
            calls_before = int(random_.below(3));
            failing = int(random_.below(kFunctions));
        }
        if (faults_ == Faults::memory && random_.below(4) == 0) {
            allocations_before_ = random_.below(random_.below(2) == 0 ? 8 : 64);
            fails_ = random_.below(2) == 0 ? FailingMemory::Fails::once : FailingMemory::Fails::on;
        }
        if (faults_ != Faults::none && random_.below(4) == 0) { // otherwise all tensors would soon carry errors
            (void)write(streams_[2], random_.below(uint32_t(entries_.size())), 0, kWords);
        }
        const Stream &stream = streams_[random_.below(3)];
        const uint32_t i = random_.below(uint32_t(entries_.size()));
        switch (random_.below(12)) {
        case 0:
            (void)write(stream, i, 0, kWords);
            break;
        case 1: {
            const uint32_t at = random_.below(kWords);
            (void)write(stream, i, at, 1 + random_.below(kWords - at));
            break;
        }
        case 2:
        case 3:
        case 4: {
            const Sum sum = random_sum();
            if (append(stream, sum)) {
                run(sum);
            }
            break;
        }
        case 5:
        case 6:
            read(stream, i);
            break;
        case 7:
            take(random_.below(4));
            break;
        case 8:
            flush_now(stream);
            break;
        case 9:
            capture(stream);
            break;
        case 10:
            replay_one(stream);
            break;
        default:
            if (random_.below(8) == 0) {
                close(i);
            } else {
                (void)done([&](kpx_error *err) { return kpx_upload(stream.get(), entries_[i].storage.get(), err); });
            }
        }
    }

    // Repeats what failed; then everything is as if there had been no failure.
    void finish() {
        failing = -1;
        allocations_before_ = FailingMemory::kNever;
        take(0);
        for (const Stream &stream : streams_) {
            flush_now(stream);
            ::flush(stream); // an error is reported once
        }
        for (uint32_t i = 0; faults_ != Faults::none && i < entries_.size(); i++) {
            (void)write(streams_[2], i, 0, kWords);
        }
        faults_ = Faults::none;
        for (int i = 0; i < 20; i++) {
            const Sum sum = random_sum();
            CHECK(append(streams_[random_.below(3)], sum));
            run(sum);
        }
        for (uint32_t i = 0; i < entries_.size(); i++) {
            CHECK(download(streams_[0], entries_[i].storage, kWords) == entries_[i].words);
        }
    }

    uint64_t failed() const { return failed_; }

  private:
    // Makes a call; whether it succeeded.
    template <typename Call> bool done(Call call) {
        kpx_error err{};
        kpx_result result;
        {
            const FailingMemory memory(allocations_before_, fails_);
            result = call(&err);
            allocations_before_ = FailingMemory::failed() ? FailingMemory::kNever : allocations_before_;
        }
        if (result == KPX_OK) {
            return true;
        }
        if (faults_ == Faults::none || result != KPX_OUT_OF_MEMORY) {
            throw Failure{"a call failed: " + std::string(err.message)};
        }
        failed_++;
        return false;
    }

    void flush_now(const Stream &stream) {
        uint64_t value = 0;
        (void)done([&](kpx_error *err) { return kpx_flush(stream.get(), UINT64_MAX, &value, err); });
    }

    static kpx_array view(const Storage &storage, uint32_t at, uint32_t size) {
        kpx_array array = words_of(storage, size, KPX_READ);
        array.offset = at;
        return array;
    }

    void renew(uint32_t i) {
        entries_[i].storage = new_storage(device_, kWords * 4);
        while (!write(streams_[0], i, 0, kWords)) { // a new tensor has no content
        }
    }

    bool write(const Stream &stream, uint32_t i, uint32_t at, uint32_t n) {
        Entry &entry = entries_[i];
        std::vector<uint32_t> data(n);
        for (uint32_t &word : data) {
            word = random_.next();
        }
        const kpx_array to = view(entry.storage, at, n);
        if (!done([&](kpx_error *err) { return kpx_tensor_write(&to, stream.get(), data.data(), n * 4, err); })) {
            return false;
        }
        std::copy(data.begin(), data.end(), entry.words.begin() + at);
        return true;
    }

    Sum random_sum() {
        const auto any = [&] { return random_.below(uint32_t(entries_.size())); };
        const bool whole = random_.below(3) != 0;
        const auto start = [&] { return whole ? 0 : random_.below(2) * kHalf; };
        return {any(), any(), any(), start(), start(), start(), whole ? kWords : kHalf};
    }

    bool append(const Stream &stream, const Sum &sum) {
        const uint32_t addition = 0;
        std::vector<kpx_array> arrays{view(entries_[sum.a].storage, sum.at_a, sum.size),
                                      view(entries_[sum.b].storage, sum.at_b, sum.size),
                                      view(entries_[sum.out].storage, sum.at_out, sum.size)};
        return done([&](kpx_error *err) {
            return append_op(stream, "binary", std::move(arrays), &addition, sizeof addition, err);
        });
    }

    void run(const Sum &sum) {
        for (uint32_t k = 0; k < sum.size; k++) {
            entries_[sum.out].words[sum.at_out + k] =
                entries_[sum.a].words[sum.at_a + k] + entries_[sum.b].words[sum.at_b + k];
        }
    }

    void read(const Stream &stream, uint32_t i) {
        const bool whole = random_.below(2) == 0;
        const uint32_t at = whole ? 0 : random_.below(kWords), n = whole ? kWords : random_.below(kWords - at + 1);
        const kpx_read_when when = random_.below(2) ? KPX_READ_SOON : KPX_READ_APPEND;
        const auto from = entries_[i].words.begin() + at;
        kpx_read *made = nullptr;
        if (done([&](kpx_error *err) {
                return kpx_read_create(entries_[i].storage.get(), stream.get(), when, at * 4, n * 4, &made, err);
            })) {
            reads_.push_back({Read(made), {from, from + n}});
        }
        take(6);
    }

    void take(size_t most) {
        while (reads_.size() > most) {
            const size_t i = random_.below(uint32_t(reads_.size()));
            const void *data = nullptr;
            const bool there =
                done([&](kpx_error *err) { return kpx_read_wait(reads_[i].read.get(), UINT64_MAX, &data, err); });
            if (there) {
                CHECK(::take(reads_[i].read, reads_[i].want.size()) == reads_[i].want);
            }
            if (!there || random_.below(4) != 0 || most == 0) { // some are kept, and waited for again
                reads_.erase(reads_.begin() + ptrdiff_t(i));
            } else {
                break;
            }
        }
    }

    void capture(const Stream &stream) {
        Captured made;
        if (!done([&](kpx_error *err) { return kpx_capture_begin(stream.get(), err); })) {
            return;
        }
        for (uint32_t i = 1 + random_.below(4); i > 0; i--) {
            const Sum sum = random_sum();
            if (append(stream, sum)) {
                made.program.push_back(sum);
            }
        }
        kpx_region *region = nullptr;
        if (!done([&](kpx_error *err) { return kpx_capture_end(stream.get(), &region, err); })) {
            return;
        }
        made.region.reset(region);
        regions_.push_back(std::move(made));
        if (regions_.size() > 3) {
            regions_.pop_front();
        }
    }

    void replay_one(const Stream &stream) {
        if (regions_.empty()) {
            return;
        }
        const Captured &captured = regions_[random_.below(uint32_t(regions_.size()))];
        const uint32_t times = 1 + random_.below(3);
        const uint32_t rounds = 1 + random_.below(3);
        for (uint32_t i = 0; i < rounds; i++) {
            uint64_t value = 0;
            if (!done([&](kpx_error *err) {
                    return kpx_replay(stream.get(), captured.region.get(), times, UINT64_MAX, &value, err);
                })) {
                continue;
            }
            for (uint32_t k = 0; k < times; k++) {
                for (const Sum &sum : captured.program) {
                    run(sum);
                }
            }
        }
    }

    // Destroys the handle and the regions that use it, whose effects could no longer be observed.
    void close(uint32_t i) {
        regions_.clear();
        entries_[i].storage.reset();
        renew(i);
    }

    Faults faults_;
    uint64_t allocations_before_ = FailingMemory::kNever; // the one that fails
    FailingMemory::Fails fails_ = FailingMemory::Fails::once;
    uint64_t failed_ = 0; // calls
    Random random_;
    Device device_ = open_device();
    std::vector<Stream> streams_;
    std::vector<Entry> entries_;
    std::deque<Captured> regions_;
    std::vector<Pending> reads_;
};

} // namespace

// KOMPUTE_GO_CACHE_STEPS: other than 6,000 steps.
static uint64_t run_steps(Faults faults) {
    const char *given = getenv("KOMPUTE_GO_CACHE_STEPS");
    const int steps = given != nullptr ? atoi(given) : 6000;
    constexpr int kEach = 500;
    uint64_t failed = 0;
    for (int done = 0; done < steps; done += kEach) {
        int i = 0;
        try {
            Machine machine(uint64_t(done) + 1, faults);
            for (; i < kEach; i++) {
                machine.step();
            }
            machine.finish();
            failed += machine.failed();
        } catch (Failure &failure) {
            failing = -1;
            failure.text += " in step " + std::to_string(i) + " of seed " + std::to_string(done + 1);
            throw;
        }
    }
    return failed;
}

TEST(random_steps_of_the_cache_match_a_model) {
    CHECK(run_steps(Faults::none) == 0);
}

TEST(random_steps_of_the_cache_match_a_model_without_host_memory) {
    CHECK(run_steps(Faults::memory) > 100);
}

TEST(random_steps_of_the_cache_match_a_model_when_calls_are_refused) {
    const Device first = open_device(); // which initialises the dispatcher
    FAILING(vkQueueSubmit, refusing_vkQueueSubmit);
    FAILING(vkCreateCommandPool, refusing_vkCreateCommandPool);
    FAILING(vkAllocateCommandBuffers, refusing_vkAllocateCommandBuffers);
    FAILING(vkBeginCommandBuffer, refusing_vkBeginCommandBuffer);
    FAILING(vkEndCommandBuffer, refusing_vkEndCommandBuffer);
    FAILING(vkCreateDescriptorPool, refusing_vkCreateDescriptorPool);
    FAILING(vkAllocateDescriptorSets, refusing_vkAllocateDescriptorSets);
    FAILING(vkAllocateMemory, refusing_vkAllocateMemory);
    FAILING(vkMapMemory, refusing_vkMapMemory);
    CHECK(run_steps(Faults::driver) > 100);
}
