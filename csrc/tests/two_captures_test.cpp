// A tensor of two captures under way, whose handle is destroyed before they end.
#include <atomic>
#include <functional>

#include "failing.hpp"
#include "test.hpp"

namespace {

PFN_vkCreateComputePipelines create_pipelines;
std::atomic<bool> waits_for_pipeline;
std::function<void()> meanwhile; // before the next pipeline is built

VkResult create_after(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *info,
                      const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    if (waits_for_pipeline.exchange(false)) {
        meanwhile();
    }
    return create_pipelines(device, cache, n, info, callbacks, out);
}

} // namespace

TEST(two_captures_share_a_tensor_whose_handle_goes) {
    constexpr uint32_t kWords = 64;
    const Device device = open_device();
    const Stream a = new_stream(device), b = new_stream(device);
    const Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);
    Storage t = new_storage(device, kWords * 4);
    upload(a, x, std::vector<uint32_t>(kWords, 3));
    upload(a, t, std::vector<uint32_t>(kWords, 1));
    wait(a, flush(a));
    begin_capture(a);
    begin_capture(b);
    add_words(a, x, x, t, kWords); // t = 6
    add_words(b, t, t, y, kWords); // y = 2 t
    t.reset();
    const Region makes = end_capture(a), reads = end_capture(b);
    replay(a, makes);
    replay(b, reads);
    const std::vector<uint32_t> got = download(b, y, 1);
    if (got[0] != 12) {
        throw Failure{"y is " + std::to_string(got[0])};
    }
}

// What happens while the region of one of them is made, which takes long without a lock.
enum class Meanwhile { other_ends, handle_goes };

static void share_a_tensor(Meanwhile what) {
    constexpr uint32_t kWords = 64;
    kpx_error err{};
    const Device device = open_device();
    const Stream a = new_stream(device), b = new_stream(device);
    const Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);
    Storage t = new_storage(device, kWords * 4);
    upload(a, x, std::vector<uint32_t>(kWords, 3));
    wait(a, flush(a));
    begin_capture(a);
    begin_capture(b);
    add_words(a, x, x, t, kWords); // t = 6
    add_words(b, t, t, y, kWords); // y = 2 t
    Region makes, reads;
    if (what == Meanwhile::other_ends) {
        t.reset();
        meanwhile = [&] { reads = end_capture(b); };
    } else {
        meanwhile = [&] { t.reset(); };
    }
    create_pipelines =
        reinterpret_cast<PFN_vkCreateComputePipelines>(kpx::vulkan_instance().getProcAddr("vkCreateComputePipelines"));
    waits_for_pipeline = true;
    {
        FAILING(vkCreateComputePipelines, create_after);
        makes = end_capture(a);
    }
    CHECK(!waits_for_pipeline);
    meanwhile = nullptr;
    if (!reads) {
        reads = end_capture(b);
    }
    kpx_gate *gate = nullptr;
    REQUIRE_OK(kpx_stream_hold(a.get(), &gate, &err));
    replay(a, makes);
    replay(b, reads); // must wait for it
    kpx_gate_open(gate);
    CHECK(download(b, y, 1)[0] == 12);
}

TEST(two_captures_that_share_a_tensor_end_at_once) {
    share_a_tensor(Meanwhile::other_ends);
}

TEST(the_handle_of_a_shared_tensor_goes_while_a_region_is_made) {
    share_a_tensor(Meanwhile::handle_goes);
}
