// Ops of a decoder layer over random numbers, appended to a stream with or
// without passes, so that fused and unfused results can be compared.
#pragma once

#include <functional>

#include "test.hpp"

namespace kpx {
struct EmbeddedKernel;
}

// The kernel of that name in the form that the device runs, or nullptr if it cannot run it.
const kpx::EmbeddedKernel *usable_kernel(const Device &device, const char *name);

struct Tensor {
    Storage buffer;
    kpx_array array;
    int64_t size() const;
};

struct Matrix {
    Tensor w, scales, biases;
    uint32_t group, bits;
    uint32_t mode = 0; // QUANTIZATION_*; 0 is affine, the one with biases
};

struct Dtypes {
    uint32_t activations = DT_FLOAT32;
    uint32_t scales = DT_BFLOAT16;
};

class Layer {
  public:
    // disabled: passes to disable, for which it opens a device of its own; nullptr: none.
    Layer(const Device &device, const char *disabled, Dtypes dtypes = {});

    Tensor empty(uint32_t dtype, const std::vector<int64_t> &shape) const;
    Tensor row(int64_t n, int64_t rows = 1) const { return empty(dtypes.activations, {1, rows, n}); }
    Tensor random(uint32_t dtype, const std::vector<int64_t> &shape, float size);
    Tensor random_row(int64_t n, int64_t rows = 1) { return random(dtypes.activations, {1, rows, n}, 1); }
    Matrix matrix(int64_t n, int64_t k, uint32_t group = 128, uint32_t bits = 4);
    Matrix mxfp4(int64_t n, int64_t k); // k a multiple of 128
    Matrix nvfp4(int64_t n, int64_t k); // k a multiple of 64

    void norm(const Tensor &x, const Tensor *gain, const Tensor &out);
    void product(const Tensor &x, const Matrix &m, const Tensor &out);
    void add(const Tensor &a, const Tensor &b, const Tensor &out);
    void silu_mul(const Tensor &gate, const Tensor &up, const Tensor &out);
    std::vector<float> read(const Tensor &tensor) const;

  private:
    // Codes of 4 bits with a scale of a byte for each group of columns: the bytes of four_scales by turns.
    Matrix small_floats(int64_t n, int64_t k, uint32_t group, uint32_t mode, uint32_t four_scales);

    const Device own_;

  public:
    const Device &device;
    const Dtypes dtypes;
    Stream stream;
    Random random_{11};
};

// The work that a test appends. The function makes the operands and the
// results, and returns the results; everything that it drops is transient.
using Build = std::function<std::vector<Tensor>(Layer &)>;

struct Expected {
    uint64_t ops;                   // of the region, after the passes
    const char *disabled = nullptr; // passes that do not run
    Dtypes dtypes;
};
// Replays what build appends as a region, with passes, and runs it as eager work,
// without them: the results must agree except for rounding.
void check_fused(const Device &device, const Build &build, const Expected &expected);
