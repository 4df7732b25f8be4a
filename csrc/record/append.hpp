// Appends calls to a window, of a stream or of a capture.
#pragma once

#include <memory>

#include "record/window.hpp"

namespace kpx {

class Algorithm;
class Device;

// A call of kpx_dispatch. The operands must have memory.
struct DispatchCall {
    const std::shared_ptr<Algorithm> &algorithm;
    const kpx_array *arrays;
    uint32_t n;
    Grid groups;
    const void *push;
    uint32_t push_bytes;
};

// Both return whether there is a dispatch, as Window::append does. They throw Missing if something must be made first,
// for which the caller must release the device's mutex, which it holds. words: the call as words, if the window's log
// is to have it.
bool append_call(Device &device, Window &window, const RawCall &call, const CallWords *words = nullptr);
bool append_call(Device &device, Window &window, const DispatchCall &call);

} // namespace kpx
