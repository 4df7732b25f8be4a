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
    // What it takes the device's time of. each: every dispatch, which then waits for the one before. whole: from start
    // to end.
    enum class Timed { no, whole, each };
    // When something ran, in nanoseconds of the device's clock.
    struct Span {
        uint64_t start, end;
    };

    // Plans and records the program. many: it may be submitted while it runs;
    // else again when it has run. The memory that the program names is the
    // caller's to keep, as long as the device may touch it. Throws an Error;
    // nothing was submitted then. A timed one throws KPX_UNSUPPORTED if the
    // device writes no timestamps.
    Recording(std::shared_ptr<Device> device, const Queue &queue, Program &program, Runs runs, Timed timed = Timed::no);
    ~Recording();
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    vk::CommandBuffer commands() const { return commands_; }
    const Counts &counts() const { return counts_; }
    // How many dispatches it has, and of which kernels, for people.
    std::string describe() const;
    // Counts that many runs for the kernel variants that it dispatches.
    void count_calls(uint64_t runs) const;

    // Of the last run, which is done, if this was asked for.
    bool times_each() const { return timed_ == Timed::each; }
    Span whole() const;
    std::vector<Span> spans() const; // one per dispatch

  private:
    friend class RecordOp;
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
    vk::Pipeline bound_; // while it is recorded
    Counts counts_;
    std::vector<std::pair<Variant *, uint64_t>> calls_; // dispatches of each variant
};

} // namespace kpx
