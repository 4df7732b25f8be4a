#include "abi/error.hpp"

namespace kpx {

void throw_error(kpx_result code, fmt::string_view pattern, fmt::format_args args) {
    throw Error(code, fmt::vformat(pattern, args));
}

} // namespace kpx
