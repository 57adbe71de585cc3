#include "support/process/side_by_side.hpp"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

namespace usher::support {

void run_side_by_side(unsigned jobs, const std::function<std::optional<command_to_run>()>& next,
                      const std::function<void(std::size_t, const ended_run&)>& done) {
  struct running {
    std::unique_ptr<process> program;
    command_to_run command;
    steady::time_point until;
  };
  if (jobs == 0) jobs = std::max(1u, std::thread::hardware_concurrency());
  std::vector<running> now;
  bool more = true;
  while (interrupted() == 0 && (more || !now.empty())) {
    while (more && now.size() < jobs) {
      auto command = next();
      if (!command) {
        more = !now.empty();  // a result may make new commands available
        break;
      }
      std::vector<char*> words;
      for (std::string& w : command->words) words.push_back(w.data());
      words.push_back(nullptr);
      auto program = std::make_unique<process>(words.data(), environment_changes{});
      const auto until =
          steady::now() + std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(command->limit));
      now.push_back({std::move(program), std::move(*command), until});
    }
    std::vector<pollfd> watched;
    watched.reserve(now.size());
    for (const running& r : now) watched.push_back({r.program->handle(), POLLIN, 0});
    if (watched.empty()) continue;
    poll(watched.data(), watched.size(), 200);
    for (std::size_t i = now.size(); i-- > 0;) {
      const bool over = watched[i].revents != 0 && !now[i].program->running();
      if (!over && steady::now() < now[i].until) continue;
      ended_run result;
      result.timed_out = !over;
      result.end = over ? now[i].program->wait(0) : now[i].program->stop(2);
      if (result.end.way == ended::how::interrupted) break;
      result.out = now[i].program->out().text();
      result.err = now[i].program->err().tail(1 << 16);
      const std::size_t id = now[i].command.id;
      now.erase(now.begin() + static_cast<std::ptrdiff_t>(i));
      done(id, result);
      more = true;
    }
  }
}

ended_run run_command(const std::vector<std::string>& words, double limit) {
  ended_run result;
  bool given = false;
  run_side_by_side(
      1,
      [&]() -> std::optional<command_to_run> {
        if (std::exchange(given, true)) return std::nullopt;
        return command_to_run{words, limit, 0};
      },
      [&](std::size_t, const ended_run& r) { result = r; });
  return result;
}

}  // namespace usher::support
