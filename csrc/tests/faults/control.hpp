// The file through which a test and the fault loader communicate; both map it.
// internal/faulttest/control.go reads the same layout.
#pragma once

#include <atomic>
#include <cstdint>

constexpr uint32_t kControlMagic = 0x4b504654; // "KPFT"
constexpr uint32_t kControlVersion = 3;

struct Counted {
    char name[64];
    uint32_t returns_result; // a VkResult, so it can be made to fail
    uint32_t reserved;
    std::atomic<uint64_t> calls;
};

struct Control {
    uint32_t magic, version, functions, reserved;
    // From the call number `from` of `function` on, `times` calls return `result` and
    // are not passed on. Calls are counted from the last time that the test set
    // `calls` to 0. Set function last; -1 is none.
    std::atomic<int64_t> function;
    std::atomic<uint64_t> from, times;
    std::atomic<int64_t> result;
    std::atomic<uint64_t> failed; // calls so far that were made to fail
    // While it is 1 the device hangs: vkQueueSubmit succeeds and submits nothing, so that no semaphore of it is ever
    // signalled, and waits for an idle queue or device do not return.
    std::atomic<uint64_t> hangs;
    // The false answer that is given, by its name in lies.hpp, or nothing. The test changes it while it makes no calls.
    char lie[64];
    std::atomic<uint64_t> lies; // how many have been told
    Counted counted[];
};
