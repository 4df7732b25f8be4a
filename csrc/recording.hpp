// A planned program, recorded once into a kp::Sequence and ready to be
// submitted, once or many times. It owns all that the device may touch while it runs.
#pragma once

#include <memory>

#include <kompute/Sequence.hpp>

#include "descriptors.hpp"
#include "program.hpp"

namespace kpx {

class Device;
struct Queue;

class Recording {
  public:
    struct Counts {
        uint64_t dispatches = 0, barriers = 0, descriptor_writes = 0, commands = 0;
    };

    enum class Runs { once, many };

    // Plans and records the program. many: it may be submitted while it runs.
    // Throws an Error; nothing was submitted then.
    Recording(std::shared_ptr<Device> device, const Queue &queue, Program program, Runs runs);

    vk::CommandBuffer commands() const { return commands_; }
    const Counts &counts() const { return counts_; }
    const Program &program() const { return program_; }

  private:
    friend class RecordOp;
    void record(const vk::CommandBuffer &commands);
    vk::DescriptorSet bind(const Node &node);

    std::shared_ptr<Device> device_;
    Program program_;
    DescriptorArena descriptors_;
    std::shared_ptr<kp::Sequence> sequence_; // freed before what its commands use
    vk::CommandBuffer commands_;
    Counts counts_;
};

} // namespace kpx
