#include "abi/error.hpp"

#include "abi/text.hpp"

namespace kpx {

void throw_error(kpx_result code, fmt::string_view pattern, fmt::format_args args) {
    throw Error(code, vformatted(pattern, args));
}

} // namespace kpx
