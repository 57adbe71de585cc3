#include "support/process/near.hpp"

namespace usher::support {
namespace {

namespace fs = std::filesystem;

/// The folders of executables that are not commands, relative to an installed tree.
constexpr const char* helper_folders[] = {USHER_LIBEXECDIR "/usher", "libexec/usher"};

}  // namespace

fs::path own_tree() {
  const fs::path folder = own_path().parent_path();
  for (const fs::path helpers : helper_folders) {
    fs::path tree = folder;
    for (auto part = helpers.begin(); part != helpers.end(); ++part) tree = tree.parent_path();
    if (tree / helpers == folder) return tree;
  }
  return folder.parent_path();
}

fs::path library_near_us(const char* name) {
  const fs::path tree = own_tree();
  for (const fs::path folder : {USHER_LIBDIR, "lib", "lib/" USHER_MULTIARCH, "lib64"})
    for (const fs::path subfolder : {"usher", ""})
      if (fs::path file = tree / folder / subfolder / name; is_file(file)) return file;
  return {};
}

fs::path document_near_us(const std::string& name) {
  for (const fs::path folder : {USHER_DOCDIR, "share/doc/usher"})
    for (const fs::path subfolder : {"", "docs"})
      for (const char* ending : {"", ".gz"})  // Debian compresses large documents
        if (fs::path file = own_tree() / folder / subfolder / (name + ending); is_file(file)) return file;
  return {};
}

fs::path helper_near_us(const char* name) {
  if (fs::path file = own_path().parent_path() / name; is_file(file)) return file;
  for (const fs::path helpers : helper_folders)
    if (fs::path file = own_tree() / helpers / name; is_file(file)) return file;
  return {};
}

}  // namespace usher::support
