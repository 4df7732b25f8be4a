// A region as JSON, in the form that kompute.RegionDescription documents.
#pragma once

#include <string>

#include "record/region.hpp"

namespace kpx {

std::string as_json(const Region &region);

} // namespace kpx
