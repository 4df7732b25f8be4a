// What a lowering needs, is not there yet, and takes long to make: a pipeline, a block of counters.
#pragma once

#include <functional>
#include <utility>

namespace kpx {

// When what is missing is made. without_mutex: not by a caller that holds the device's mutex, for which others would
// have to wait; it gets Missing instead. later: pipelines only, by build_pipelines() once all of a region are known.
enum class Making { now, without_mutex, later };

// Thrown instead of making it. Whoever took the mutex releases it, calls make() and starts again. It is not an
// Error, so that nobody takes it for the result of a call.
class Missing {
  public:
    explicit Missing(std::function<void()> make) : make_(std::move(make)) {}
    void make() const { make_(); }

  private:
    std::function<void()> make_;
};

} // namespace kpx
