// The SPIR-V that cmake/shaders.cmake compiled into this archive, of each kernel the best variant first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kpx {

struct EmbeddedKernel {
    const char *kernel;
    const char *variant;
    const char *features; // comma list of what a device must have
    const uint32_t *spirv, *end;

    size_t bytes() const { return size_t(end - spirv) * sizeof *spirv; }
};

extern const EmbeddedKernel embedded_kernels[];
extern const uint32_t embedded_kernel_count;

} // namespace kpx
