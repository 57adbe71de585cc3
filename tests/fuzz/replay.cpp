// Runs the targets on files: fuzz_replay CORPUS…, where each argument is a folder with the name of a target. Fails if a
// target has no input.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz.hpp"

namespace usher::fuzz {
namespace {
named_target* first = nullptr;
}  // namespace

named_target::named_target(const char* its_name, target its_run) : name(its_name), run(its_run), next(first) {
  first = this;
}

namespace {
std::size_t replay(const named_target& t, const std::filesystem::path& folder) {
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(in), {}};
    std::printf("%s %s\n", t.name, entry.path().filename().c_str());
    std::fflush(stdout);  // so that, after a crash, the last printed line names the input
    t.run({reinterpret_cast<const std::uint8_t*>(content.data()), content.size()});
    n++;
  }
  return n;
}
}  // namespace
}  // namespace usher::fuzz

int main(int count, char** arguments) {
  using namespace usher::fuzz;
  int missing = 0;
  for (const named_target* t = first; t != nullptr; t = t->next) {
    std::size_t n = 0;
    for (int i = 1; i < count; i++)
      if (const auto folder = std::filesystem::path(arguments[i]) / t->name; is_directory(folder))
        n += replay(*t, folder);
    if (n == 0) std::printf("%s has no inputs\n", t->name);
    missing += n == 0;
  }
  return first == nullptr || missing != 0;
}
