// Tells the caller how many kernel variants the driver has refused.
#pragma once

#include "abi/kpx.h"
#include "runtime/device.hpp"
#include "runtime/kernels.hpp"
#include "stream/stream.hpp"

namespace kpx {

// It does so at the end, even of a call that fails.
class NoteRefusals {
  public:
    NoteRefusals(const Stream &stream, kpx_error *err) : kernels_(stream.device()->kernels()), err_(err) {}
    ~NoteRefusals() {
        if (err_ != nullptr) {
            err_->refusals = uint32_t(kernels_.refusals());
        }
    }
    NoteRefusals(const NoteRefusals &) = delete;
    NoteRefusals &operator=(const NoteRefusals &) = delete;

  private:
    const Kernels &kernels_;
    kpx_error *err_;
};

} // namespace kpx
