// The size of a chart's image.
#pragma once

namespace usher::lab {

/// In pixels; 0: the default.
struct image_size {
  unsigned width = 0, height = 0;
};

}  // namespace usher::lab
