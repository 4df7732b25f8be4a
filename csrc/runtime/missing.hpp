// What a lowering needs, is not there yet, and takes long to make: a pipeline, a block of counters.
#pragma once

#include <functional>
#include <utility>

namespace kpx {

// Whether something that is missing is made at once. The caller holds the device's mutex: then it is not, since others
// would have to wait as well.
enum class Making { now, without_mutex };

// Thrown instead of making it. Whoever took the mutex releases it, calls make() and starts again. It is no Error, so
// that nobody takes it for the result of a call.
class Missing {
  public:
    explicit Missing(std::function<void()> make) : make_(std::move(make)) {}
    void make() const { make_(); }

  private:
    std::function<void()> make_;
};

} // namespace kpx
