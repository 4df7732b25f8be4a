// The base of the classes of op calls in gen_ops.hpp.
#pragma once

#include "ops/op.hpp"

namespace kpx {

// An operand in the table of ops.
struct OperandInfo {
    const char *name;
    kpx_access access;
    bool optional;
};

// The operands and parameters of one call of an op, by name. Absent operands are empty arrays.
template <typename P> class CallOf {
  public:
    using Params = P;

    CallOf(const Array *arrays, uint32_t count, const P &op) : arrays_(arrays), count_(count), op_(op) {}
    const P &op() const { return op_; }
    uint32_t count() const { return count_; }

  protected:
    const Array &at(uint32_t i) const { return arrays_[i]; }

  private:
    const Array *arrays_;
    uint32_t count_;
    const P &op_;
};

} // namespace kpx
