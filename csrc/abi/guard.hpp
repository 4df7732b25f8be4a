// The body of every extern "C" function that can fail runs inside guarded(),
// which turns every exception into a kpx_error.
#pragma once

#include <cstring>
#include <new>

#include "abi/error.hpp"
#include "runtime/vulkan_loader.hpp"

namespace kpx {

// Short enough that a std::string of it allocates nothing.
constexpr const char *kNoHostMemory = "no host memory";

inline kpx_result report(kpx_error *err, const Error &e) noexcept {
    if (err != nullptr) {
        err->code = e.code;
        err->of_content = e.of_content;
        err->of_window = e.of_window;
        err->requested = e.requested;
        err->available = e.available;
        strncpy(err->message, e.what(), sizeof err->message - 1);
        err->message[sizeof err->message - 1] = 0;
    }
    return e.code;
}

// The exception being handled. It throws std::bad_alloc if there is no memory to describe it.
inline Error described_error() {
    try {
        throw;
    } catch (const Error &e) {
        return e;
    } catch (const vk::SystemError &e) {
        return {result_code(vk::Result(e.code().value())), e.what()};
    } catch (const std::bad_alloc &) {
        return {KPX_OUT_OF_MEMORY, kNoHostMemory};
    } catch (const std::exception &e) {
        return {KPX_INTERNAL, e.what()};
    } catch (...) {
        return {KPX_INTERNAL, "unknown exception"};
    }
}

// The exception being handled, as an Error.
inline Error current_error() noexcept {
    try {
        return described_error();
    } catch (const std::bad_alloc &) {
        return {KPX_OUT_OF_MEMORY, kNoHostMemory};
    }
}

template <typename Body> kpx_result guarded(kpx_error *err, Body body) noexcept {
    try {
        body();
        return KPX_OK;
    } catch (...) {
        return report(err, current_error());
    }
}

} // namespace kpx
