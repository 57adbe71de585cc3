#include "watch/reader/name/remote_symbols.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "watch/reader/name/name_child.hpp"
#include "watch/reader/name/name_messages.hpp"

namespace usher::reader {
namespace {

using steady_clock = std::chrono::steady_clock;

constexpr unsigned most_failures = 8;  // number of omitted files after which the place gets no names; chosen

std::size_t size_of(const std::vector<frame>& frames) {
  std::size_t size = 0;
  for (const frame& f : frames) size += sizeof f + f.function.size() + f.file.size() + f.module.size();
  return size;
}

/// The first three files as a list, followed by the number of the others.
std::string first_of(const std::set<std::string>& files) {
  constexpr std::size_t shown = 3;
  std::string list;
  std::size_t n = 0;
  for (const std::string& f : files) {
    if (n++ == shown) return fmt::format("{} and {} more", list, files.size() - shown);
    list += (list.empty() ? "" : ", ") + f;
  }
  return list;
}

}  // namespace

struct remote_symbols::state {
  /// A place (process_place.hpp), the child that serves it, and the files and failures there.
  struct served_place {
    process_place place;
    std::unique_ptr<name_child> child;
    std::set<std::string> left_out, denied;
    std::map<std::string, double> seconds;  ///< waiting time, by file
    std::string file;                       ///< the file that the child announced last
    unsigned nameless_failures = 0;         ///< failures without an announced file
    bool has_no_names = false;              ///< from now on
    std::string refusal;                    ///< the reason why there were no names from the start
  };

  using query_key = std::tuple<query::what, std::uint32_t, std::uint64_t>;
  struct query_hash {
    std::size_t operator()(const query_key& k) const {
      return (std::get<2>(k) ^ std::uint64_t{std::get<1>(k)} << 48 ^ static_cast<std::uint64_t>(std::get<0>(k)) << 63) *
             0x9e3779b97f4a7c15u;
    }
  };
  static query_key key_of(const query& q) { return {q.kind, q.process, q.address}; }

  contract::view record;
  std::vector<process_place> places;
  process_place others;
  std::shared_ptr<name_budget> budget;
  std::function<void(int)> test_child;
  symbols bare;
  std::vector<std::unique_ptr<served_place>> served;
  std::unordered_map<query_key, answer, query_hash> known;
  bool is_out_of_time = false, is_out_of_room = false;

  served_place& place_for(std::uint32_t process);
  void fetch(std::vector<query> queries);
  std::size_t ask(served_place& from, std::span<const query> queries);
  bool start(served_place& from);
  bool receive(served_place& from, message_kind& kind, std::string& payload);
  void blame(served_place& from);
  void add_stack(std::uint32_t process, std::uint64_t return_address, std::vector<frame>& to);
  const answer& at(const query& q);
  answer bare_answer(const query& q);
};

remote_symbols::state::served_place& remote_symbols::state::place_for(std::uint32_t process) {
  const process_place& wanted = process < places.size() ? places[process] : others;
  for (auto& s : served)
    if (s->place.key() == wanted.key()) return *s;
  served.push_back(std::make_unique<served_place>());
  served.back()->place = wanted;
  served.back()->refusal = wanted.refusal;
  served.back()->has_no_names = !wanted.refusal.empty();
  return *served.back();
}

/// The answer without a child: module and offset. The recorded program chooses the paths of modules, too, so their
/// length is charged to the budget of received bytes.
answer remote_symbols::state::bare_answer(const query& q) {
  answer a;
  if (q.kind == query::what::data) return a;
  a.frames = bare.resolve(q.process, q.address).frames;
  const std::size_t size = size_of(a.frames);
  if (size > budget->bytes_received) {
    is_out_of_room = true;
    a.frames.assign(1, frame{});
  } else {
    budget->bytes_received -= size;
  }
  return a;
}

/// Receives the next message that does not announce a file. The waiting time is charged to the file announced last.
bool remote_symbols::state::receive(served_place& from, message_kind& kind, std::string& payload) {
  for (;;) {
    double& spent = from.seconds[from.file];
    const double allowed = std::min(budget->seconds_a_file - spent, budget->seconds);
    const auto begin = steady_clock::now();
    const auto deadline = begin + std::chrono::duration_cast<steady_clock::duration>(
                                      std::chrono::duration<double>(std::max(allowed, 0.0)));
    message_head head{};
    bool good = from.child->receive_all(&head, sizeof head, deadline) && head.length <= longest_message &&
                head.length <= budget->bytes_received;
    if (good) {
      budget->bytes_received -= head.length;
      payload.resize(head.length);
      good = from.child->receive_all(payload.data(), payload.size(), deadline);
    }
    const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    spent += seconds;
    budget->seconds -= seconds;
    if (!good || (head.kind != message_kind::entered && head.kind != message_kind::denied)) {
      kind = head.kind;
      return good;
    }
    auto path = decode_text(payload);
    if (!path) return false;
    if (head.kind == message_kind::entered)
      from.file = std::move(*path);
    else
      from.denied.insert(std::move(*path));
  }
}

bool remote_symbols::state::start(served_place& from) {
  from.file.clear();
  from.seconds[from.file] = 0;
  const pid_t parent = getpid();
  from.child = std::make_unique<name_child>([&](int channel) {
    if (test_child)
      test_child(channel);
    else
      serve_names(channel, parent, from.place, record, from.left_out);
  });
  message_kind kind{};
  std::string payload;
  if (!receive(from, kind, payload) || kind != message_kind::ready) return false;
  const auto refusal = decode_text(payload);
  if (refusal && !refusal->empty()) {
    from.refusal = *refusal;
    from.has_no_names = true;
    from.child.reset();
  }
  return refusal && refusal->empty();
}

/// Kills a failed child. The file that it announced last is not opened again.
void remote_symbols::state::blame(served_place& from) {
  from.child.reset();
  is_out_of_time = is_out_of_time || budget->seconds <= 0;
  is_out_of_room = is_out_of_room || budget->bytes_received < longest_message;
  const bool is_new =
      !from.file.empty() && from.left_out.size() < most_failures && from.left_out.insert(from.file).second;
  if (!is_new) from.nameless_failures++;
  if (from.nameless_failures > 1 || is_out_of_time || is_out_of_room || is_to_end()) from.has_no_names = true;
}

/// Sends queries to the place's child. Returns the number of answers; if some are missing, the child has failed.
std::size_t remote_symbols::state::ask(served_place& from, std::span<const query> queries) {
  if (!from.child && !start(from)) {
    if (!from.has_no_names) blame(from);
    return 0;
  }
  const auto count = static_cast<std::uint32_t>(queries.size());
  const auto deadline = steady_clock::now() + std::chrono::seconds(1);
  std::size_t answered = 0;
  bool good = from.child->send_all(&count, sizeof count, deadline) &&
              from.child->send_all(queries.data(), queries.size_bytes(), deadline);
  for (; good && answered < queries.size(); answered++) {
    const query& q = queries[answered];
    message_kind kind{};
    std::string payload;
    const auto expected = q.kind == query::what::code ? message_kind::code : message_kind::data;
    if (!receive(from, kind, payload) || kind != expected) break;
    auto a = decode(q.kind, payload);
    if (!a) break;
    known[key_of(q)] = std::move(*a);
  }
  if (answered < queries.size()) blame(from);
  return answered;
}

/// Puts the answers into `known`. The loop ends because each failure of a child either excludes a file or counts as a
/// failure without a file, and both are limited.
void remote_symbols::state::fetch(std::vector<query> queries) {
  std::erase_if(queries, [this](const query& q) { return known.contains(key_of(q)); });
  // Sorting makes the queries for one file adjacent, so the child announces the file once.
  std::sort(queries.begin(), queries.end(), [](const query& a, const query& b) { return key_of(a) < key_of(b); });
  queries.erase(std::unique(queries.begin(), queries.end(),
                            [](const query& a, const query& b) { return key_of(a) == key_of(b); }),
                queries.end());
  std::map<served_place*, std::vector<query>> by_place;
  for (const query& q : queries) by_place[&place_for(q.process)].push_back(q);
  for (auto& [from, all] : by_place) {
    std::span<const query> rest = all;
    while (!rest.empty() && !from->has_no_names)
      rest = rest.subspan(ask(*from, rest.first(std::min(rest.size(), most_queries))));
    for (const query& q : rest) known[key_of(q)] = bare_answer(q);
  }
}

const answer& remote_symbols::state::at(const query& q) {
  const auto found = known.find(key_of(q));
  if (found != known.end()) return found->second;
  fetch({q});
  return known[key_of(q)];
}

void remote_symbols::state::add_stack(std::uint32_t process, std::uint64_t return_address, std::vector<frame>& to) {
  const answer& a = at({query::what::code, process, return_address});
  const std::size_t size = size_of(a.frames), begin = to.size();
  if (size <= budget->bytes_handed_out) {
    budget->bytes_handed_out -= size;
    to.insert(to.end(), a.frames.begin(), a.frames.end());
  } else {
    is_out_of_room = true;
    to.emplace_back();
  }
  for (std::size_t i = begin; i < to.size(); i++) to[i].address = return_address - 1;
}

remote_symbols::remote_symbols(contract::view record, std::vector<process_place> places, process_place others,
                               std::shared_ptr<name_budget> budget, std::function<void(int channel)> child)
    : symbols(record),
      remote_(new state{record,
                        std::move(places),
                        std::move(others),
                        std::move(budget),
                        std::move(child),
                        symbols(record, file_reading{.opens_files = false}),
                        {},
                        {}}) {}

remote_symbols::~remote_symbols() = default;

stack remote_symbols::resolve(const contract::chain& c) {
  stack s;
  s.is_cut = c.cut != 0;
  const std::uint32_t length = std::min(c.length, contract::chain::longest);
  std::vector<query> queries;
  for (std::uint32_t i = 0; i < length; i++) queries.push_back({query::what::code, c.process, c.pc[i]});
  remote_->fetch(queries);
  for (const query& q : queries) remote_->add_stack(q.process, q.address, s.frames);
  return s;
}

stack remote_symbols::resolve(std::uint32_t process, std::uint64_t return_address) {
  stack s;
  remote_->add_stack(process, return_address, s.frames);
  return s;
}

std::optional<symbols::static_object> remote_symbols::object_at(std::uint32_t process, std::uint64_t address) {
  return remote_->at({query::what::data, process, address}).object;
}

void remote_symbols::prepare(std::span<const query> queries) {
  remote_->fetch({queries.begin(), queries.end()});
}

std::vector<pid_t> remote_symbols::children() const {
  std::vector<pid_t> all;
  for (const auto& s : remote_->served)
    if (s->child) all.push_back(s->child->pid());
  return all;
}

std::vector<std::string> remote_symbols::remarks() const {
  std::vector<std::string> all;
  std::set<std::string> failed;
  bool any_given_up = false;
  for (const auto& s : remote_->served) {
    failed.insert(s->left_out.begin(), s->left_out.end());
    if (!s->denied.empty())
      all.push_back(fmt::format("Names in {} are missing: user {}, as which the program runs, may not read {}.",
                                first_of(s->denied), s->place.uid, s->denied.size() == 1 ? "it" : "them"));
    if (!s->refusal.empty())
      all.push_back(
          fmt::format("Names of functions and objects are missing: {}. usher stat as root, or inside the program's "
                      "container and as its user, finds them.",
                      s->refusal));
    else
      any_given_up = any_given_up || s->has_no_names;
  }
  if (!failed.empty())
    all.push_back(fmt::format("Names in {} are missing: reading {} crashed or took longer than {:.0f} s.",
                              first_of(failed), failed.size() == 1 ? "it" : "them", remote_->budget->seconds_a_file));
  if (remote_->is_out_of_time)
    all.push_back("Names are missing: reading symbols and debug information took too long.");
  else if (remote_->is_out_of_room)
    all.push_back("Names are missing: they are too long.");
  else if (any_given_up)
    all.push_back("Names are missing: the process that reads symbols and debug information failed repeatedly.");
  return all;
}

std::unique_ptr<symbols> names_of(contract::view record, std::vector<process_place> places, process_place others,
                                  std::shared_ptr<name_budget> budget) {
  return std::make_unique<remote_symbols>(record, std::move(places), std::move(others), std::move(budget));
}

}  // namespace usher::reader
