// A tensor of two captures under way, whose handle is destroyed before they end.
#include "test.hpp"

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
