// Makes the shim's allocations of host memory fail.
#pragma once

#include <cstdint>

// While this object lives, its thread's allocations fail after that many, once or from then on. Only those by operator
// new in the program itself count: the driver and validation layers would not survive it.
class FailingMemory {
  public:
    static constexpr uint64_t kNever = UINT64_MAX;
    enum class Fails { once, on };

    explicit FailingMemory(uint64_t after, Fails fails = Fails::once);
    ~FailingMemory();
    FailingMemory(const FailingMemory &) = delete;
    FailingMemory &operator=(const FailingMemory &) = delete;
    // Whether any has failed.
    static bool failed();
};
