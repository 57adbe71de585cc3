#include "cli/draw/drawing.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

#include "support/process/near.hpp"

namespace usher::cli {
namespace {

constexpr const char* module_name = "libusher-draw.so";

void* module = nullptr;  // loaded once, and never unloaded

std::string dynamic_error() {
  const char* const error = dlerror();
  return error == nullptr ? "unknown error" : error;
}

template <class Function, class Chart>
std::string drawn_by(const char* symbol, const Chart& c, image_format format) {
  if (const std::string reason = load_drawing(); !reason.empty()) throw std::runtime_error(reason);
  const auto function = reinterpret_cast<Function*>(dlsym(module, symbol));
  if (function == nullptr) throw std::runtime_error(dynamic_error());
  std::string out;
  if (!function(&c, format, &out)) throw std::runtime_error(out);
  return out;
}

}  // namespace

std::string load_drawing() {
  if (module != nullptr) return "";
  const std::filesystem::path file = library_near_us(module_name);
  if (file.empty())
    return fmt::format(
        "there is no {} near {}: it is built with USHER_BUILD_CHARTS=ON, which needs cairo. On Debian: apt-get install "
        "libcairo2-dev, then build Usher again (make build)",
        module_name, own_path().parent_path().native());
  void* const loaded = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr)
    return fmt::format("the module that draws cannot be loaded (on Debian: apt-get install libcairo2): {}",
                       dynamic_error());
  const auto* const version = static_cast<const char*>(dlsym(loaded, drawing_symbols::version));
  if (version == nullptr || version != std::string_view(USHER_VERSION)) {
    const std::string found = version == nullptr ? "none" : version;
    dlclose(loaded);
    return fmt::format("{} is of another release of Usher: its version is {}, not {}", file.native(), found,
                       USHER_VERSION);
  }
  module = loaded;
  return "";
}

std::string drawn(const chart& c, image_format format) {
  return drawn_by<draw_chart_function>(drawing_symbols::chart, c, format);
}

std::string drawn(const curve_chart& c, image_format format) {
  return drawn_by<draw_curves_function>(drawing_symbols::curves, c, format);
}

}  // namespace usher::cli
