#include "report.hpp"

#include <sys/resource.h>

#include <cstdio>

#include "options.hpp"
#include "support/measure/host.hpp"

namespace workloads {

field field::operator[](const char* key) const {
  return field(place_[key]);
}
field field::append() const {
  place_.emplace_back();
  return field(place_.back());
}

void field::operator=(double number) const {
  place_ = number;
}
void field::operator=(const std::string& text) const {
  place_ = text;
}
void field::operator=(const std::vector<std::uint64_t>& numbers) const {
  place_ = numbers;
}
void field::set(bool truth) const {
  place_ = truth;
}
void field::set(std::int64_t number) const {
  place_ = number;
}
void field::set(std::uint64_t number) const {
  place_ = number;
}

document::document(int argc, char** argv, const char* kind) : root_(std::make_unique<nlohmann::json>()) {
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  *root_ = {{kind, program_name},
            {"command", command},
            {"date", usher::support::utc_now()},
            {"machine", usher::support::machine()},
            {"compiler", usher::support::compiler()},
            {"commit", workloads_commit}};
}
document::~document() = default;

field document::operator[](const char* key) {
  return field((*root_)[key]);
}

void document::write(const std::string& file) const {
  if (file.empty()) {
    std::printf("%s\n", root_->dump(1).c_str());
    std::fflush(stdout);
    return;
  }
  std::ofstream out(file);
  out << root_->dump(1) << '\n';
  if (!out.flush()) fail("cannot write " + file);
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usher::support::cpu_seconds(usage);
}

}  // namespace workloads
