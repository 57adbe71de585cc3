// Command-line options and errors of the workload programs. The code is small, because the programs must start fast:
// they run under an instruction counter, and many times in a row.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace workloads {

inline const char* program_name = "workload";

/// Prints one line on stderr and ends the process. It does not call exit(), because other threads may still run, and
/// destructors must not run at the same time.
[[noreturn]] inline void fail(const std::string& why, int status = 1) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", program_name, why.c_str());
  std::_Exit(status);
}

/// Options `--name value` and `--name=value`, bound to variables. A mistake is reported in one line with exit status 2.
class options {
 public:
  options(const char* program, const char* purpose) : purpose_(purpose) { program_name = program; }

  void number(const char* name, long& target, long least, long most, const char* help) {
    add(name, help, true, [&target, least, most](std::string_view text) {
      return read(text, target) && target >= least && target <= most;
    });
  }
  void real(const char* name, double& target, double least, double most, const char* help) {
    add(name, help, true, [&target, least, most](std::string_view text) {
      return read(text, target) && target >= least && target <= most;
    });
  }
  void text(const char* name, std::string& target, const char* help) {
    add(name, help, true, [&target](std::string_view text) {
      target = text;
      return true;
    });
  }
  void list(const char* name, std::vector<std::string>& target, const char* help) {
    add(name, help, true, [&target](std::string_view text) {
      target = split(text);
      return !target.empty();
    });
  }
  void numbers(const char* name, std::vector<long>& target, long least, long most, const char* help) {
    add(name, help, true, [&target, least, most](std::string_view text) {
      target.clear();
      for (const std::string& item : split(text)) {
        long value = 0;
        if (!read(item, value) || value < least || value > most) return false;
        target.push_back(value);
      }
      return !target.empty();
    });
  }
  void flag(const char* name, bool& target, const char* help) {
    add(name, help, false, [&target](std::string_view) { return target = true; });
  }

  void parse(int argc, char** argv) const {
    for (int i = 1; i < argc; ++i) {
      std::string_view argument = argv[i];
      if (argument == "--help" || argument == "-h") usage();
      const bool named = argument.substr(0, 2) == "--";
      const std::size_t equals = argument.find('=');
      const option* found = named ? find(argument.substr(2, equals - (equals == argument.npos ? 0 : 2))) : nullptr;
      if (found == nullptr) fail("unknown argument '" + std::string(argument) + "' (try --help)", 2);
      std::string_view value;
      if (equals != argument.npos) {
        value = argument.substr(equals + 1);
      } else if (found->takes_value) {
        if (++i == argc) fail("--" + found->name + " needs a value", 2);
        value = argv[i];
      }
      if ((equals != argument.npos && !found->takes_value) || !found->apply(value))
        fail("--" + found->name + ": '" + std::string(value) + "' is not acceptable (try --help)", 2);
    }
  }

 private:
  struct option {
    std::string name, help;
    bool takes_value;
    std::function<bool(std::string_view)> apply;
  };

  template <class Number>
  static bool read(std::string_view text, Number& target) {
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, target);
    return error == std::errc() && stopped == end;
  }
  static std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> items;
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      if (comma != 0) items.emplace_back(text.substr(0, comma));
      text = comma == text.npos ? std::string_view() : text.substr(comma + 1);
    }
    return items;
  }
  void add(const char* name, const char* help, bool takes_value, std::function<bool(std::string_view)> apply) {
    all_.push_back({name, help, takes_value, std::move(apply)});
  }
  const option* find(std::string_view name) const {
    for (const option& o : all_)
      if (o.name == name) return &o;
    return nullptr;
  }
  [[noreturn]] void usage() const {
    std::printf("%s: %s\n", program_name, purpose_);
    for (const option& o : all_)
      std::printf("  --%-14s %s\n", (o.name + (o.takes_value ? " X" : "")).c_str(), o.help.c_str());
    std::exit(0);
  }

  const char* purpose_;
  std::vector<option> all_;
};

}  // namespace workloads
