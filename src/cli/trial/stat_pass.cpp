#include "cli/trial/stat_pass.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process/near.hpp"

namespace usher::cli::trial {
namespace {

/// A name in the folder for temporary files; the file is gone with the object.
class temporary_name {
 public:
  temporary_name() {
    std::error_code none;
    std::string pattern = (std::filesystem::temp_directory_path(none) / "usher-try-XXXXXX").native();
    const int descriptor = mkstemp(pattern.data());
    if (descriptor < 0) return;
    close(descriptor);
    path_ = pattern;
  }
  temporary_name(const temporary_name&) = delete;
  temporary_name& operator=(const temporary_name&) = delete;
  ~temporary_name() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

bool has_stat() {
  static const bool there = !helper_near_us("usher_stat").empty();
  return there;
}

std::string stat_verdict(runner& r) {
  const temporary_name file;
  if (!has_stat() || file.path().empty()) return "";
  const attempt a =
      r.run_through({helper_near_us("usher_stat").native(), "stat", "--lock", c_library, "--json", file.path(), "--"});
  if (!a.run.error.empty()) return "";
  std::ifstream in(file.path());
  const auto report = nlohmann::json::parse(in, nullptr, false);
  if (!report.is_object() || !report.contains("verdict") || !report["verdict"].is_string()) return "";
  return report["verdict"].get<std::string>();
}

}  // namespace usher::cli::trial
