#include "abi/text.hpp"

namespace kpx {

std::string vformatted(fmt::string_view pattern, fmt::format_args args) {
    return fmt::vformat(pattern, args);
}

std::string hex(const uint8_t *bytes, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; i++) {
        out += formatted("{:02x}", bytes[i]);
    }
    return out;
}

} // namespace kpx
