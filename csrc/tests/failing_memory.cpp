#include "failing_memory.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <new>

// Symbols that the linker defines: where the program's code begins and ends.
extern "C" const char __executable_start, etext;

namespace {

struct Failing {
    uint64_t after = FailingMemory::kNever;
    FailingMemory::Fails fails = FailingMemory::Fails::once;
    bool failed = false;
};
thread_local Failing failing;

bool fails(const void *caller) {
    if (failing.after == FailingMemory::kNever || caller < &__executable_start || caller >= &etext) {
        return false;
    }
    if (failing.after > 0) {
        failing.after--;
        return false;
    }
    failing.failed = true;
    if (failing.fails == FailingMemory::Fails::once) {
        failing.after = FailingMemory::kNever;
    }
    return true;
}

void check(const void *caller) {
    if (fails(caller)) {
        throw std::bad_alloc();
    }
}

// The function of that name which this program would have without the one below.
template <typename... Args> auto next(const char *name) {
    return reinterpret_cast<void *(*)(Args...)>(dlsym(RTLD_NEXT, name));
}

} // namespace

FailingMemory::FailingMemory(uint64_t after, Fails fails) {
    failing = {after, fails, false};
}

FailingMemory::~FailingMemory() {
    failing.after = kNever;
}

bool FailingMemory::failed() {
    return failing.failed;
}

#define CALLER __builtin_return_address(0)

void *operator new(size_t bytes) {
    static const auto allocate = next<size_t>("_Znwm");
    check(CALLER);
    return allocate(bytes);
}
void *operator new[](size_t bytes) {
    static const auto allocate = next<size_t>("_Znam");
    check(CALLER);
    return allocate(bytes);
}
void *operator new(size_t bytes, std::align_val_t alignment) {
    static const auto allocate = next<size_t, std::align_val_t>("_ZnwmSt11align_val_t");
    check(CALLER);
    return allocate(bytes, alignment);
}
void *operator new[](size_t bytes, std::align_val_t alignment) {
    static const auto allocate = next<size_t, std::align_val_t>("_ZnamSt11align_val_t");
    check(CALLER);
    return allocate(bytes, alignment);
}
