// A planned program, recorded once into a kp::Sequence and ready to be
// submitted, once or many times.
#pragma once

#include <memory>
#include <string>

#include "record/program.hpp"
#include "runtime/descriptors.hpp"
#include "runtime/sequences.hpp"
#include "runtime/timestamps.hpp"

namespace kpx {

class Device;
struct Queue;

class Recording {
  public:
    struct Counts {
        uint64_t dispatches = 0, barriers = 0, descriptor_writes = 0, commands = 0;
    };

    enum class Runs { once, many };
    // What is timed. each: every dispatch, which then waits for the previous one. whole: from start to end.
    enum class Timed { no, whole, each };
    // When something began and ended, in nanoseconds of the device's clock.
    struct Span {
        uint64_t start, end;
    };

    // Records the program, whose barriers the caller has planned (Program::plan). Runs::many: it may be submitted while
    // it runs; Runs::once: only after it has run. The caller keeps the program's memory for as long as the device may
    // touch it. Throws an Error, having submitted nothing; KPX_UNSUPPORTED if it is to be timed and the device does not
    // support timestamps.
    Recording(std::shared_ptr<Device> device, const Queue &queue, const Program &program, Runs runs,
              Timed timed = Timed::no);
    ~Recording();
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    vk::CommandBuffer commands() const { return commands_; }
    const Counts &counts() const { return counts_; }
    // The number of dispatches, in all and by kernel, for messages.
    std::string describe() const;
    // Adds that many runs to the counts of the kernel variants that it dispatches.
    void count_calls(uint64_t runs) const;

    // Times of the last run, which must be done; only for a recording that is timed.
    bool times_each() const { return timed_ == Timed::each; }
    Span whole() const;
    std::vector<Span> spans() const; // one per dispatch

  private:
    friend class RecordOp;
    struct Calls {
        Variant *variant;   // nullptr: of the caller's own shaders
        const char *kernel; // static
        uint64_t dispatches;
    };
    void record(const vk::CommandBuffer &commands, const Program &program);
    void record_node(vk::CommandBuffer commands, const Program &program, const Node &node, vk::DescriptorSet set);
    void count_node(const Node &node);
    void stamp(vk::CommandBuffer commands, bool wanted);
    std::vector<vk::DescriptorSet> bind(const Program &program);

    std::shared_ptr<Device> device_;
    Timed timed_;
    std::unique_ptr<Timestamps> stamps_;
    DescriptorArena descriptors_;
    Sequences::Entry sequence_; // freed before what its commands use
    vk::CommandBuffer commands_;
    vk::Pipeline bound_; // used during recording
    Counts counts_;
    std::vector<Calls> calls_;
};

} // namespace kpx
