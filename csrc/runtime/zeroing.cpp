#include "runtime/zeroing.hpp"

#include "record/transfer.hpp"
#include "runtime/run_once.hpp"
#include "runtime/tensors.hpp"

namespace kpx {

void zero(Device &device, const Block &block) {
    const std::shared_ptr<kp::Tensor> zeros = make_tensor(device, kp::Tensor::TensorTypes::eHost, block.bytes);
    Program program;
    append_transfer(device, program, {buffer_of(*zeros), 0, zeros}, {block.handle, 0, block.tensor}, block.bytes);
    run_once(device, std::move(program), "the device hangs: counters were not zeroed in time");
}

} // namespace kpx
