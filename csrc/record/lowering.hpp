// The Lowering that the ops see: appends to a Program on one device.
#pragma once

#include "ops/op.hpp"
#include "record/call_log.hpp"
#include "record/program.hpp"
#include "runtime/device.hpp"
#include "runtime/kernels.hpp"

namespace kpx {

// When the scratch memory of a lowering is allocated. later: the memory plan does it, or puts something else in its
// place.
enum class ScratchMemory { now, later };

class ProgramLowering : public Lowering {
  public:
    // log: where the lowering's scratch memory is recorded, or null. without: variants to leave out.
    ProgramLowering(Device &device, Program &program, ScratchMemory scratch, Making making, CallLog *log,
                    const Variants &without)
        : device_(device), program_(program), scratch_(scratch), making_(making), log_(log), without_(without) {}

    const DeviceTraits &device() const override { return device_.traits(); }
    Array scratch(uint32_t dtype, std::initializer_list<int64_t> shape) override;
    Array counters(int64_t n) override;
    bool has_kernel(const char *kernel) const override;
    bool runs_variant(const char *kernel, std::string_view word) const override;

  protected:
    void dispatch_bytes(const char *kernel, const uint32_t *spec, uint32_t constants, const Binding *bindings,
                        size_t bound, const void *params, uint32_t size, Grid grid) override;

  private:
    Device &device_;
    Program &program_;
    ScratchMemory scratch_;
    Making making_;
    CallLog *log_;
    const Variants &without_;
};

// Appends the dispatches of one call. If the driver refuses a kernel that the op's lowering has chosen, the lowering
// chooses again. Throws what the lowering throws, and Missing unless `making` is now.
void lower_call(Device &device, Program &program, int32_t op, const OpCall &call, ScratchMemory scratch, Making making,
                CallLog *log = nullptr);

// invariant_rows (projection_matrix.hpp) of what this device lowers to.
uint32_t invariant_rows(Device &device);

// Checks a view of a tensor: known dtype, rank, sizes, all elements inside. Returns the bytes of an element; throws
// KPX_INVALID.
uint64_t check_view(const kpx_array &view);

// The array of the C ABI, checked; its tensor is ready on this device. An absent one stays absent.
Array make_array(Device &device, const kpx_array &array);

// The range that binding this array touches. Throws KPX_TOO_LARGE if no binding can span it.
Use use_of(Device &device, const Array &array, kpx_access access);

// Throws KPX_INVALID if the device cannot launch that many workgroups.
void check_grid(const Device &device, Grid grid);

} // namespace kpx
