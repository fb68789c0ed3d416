#include "codegen/codegen.h"

namespace tl {

std::vector<std::string> comments_of(const Kernel& k) {
  std::vector<std::string> lines;
  std::string text = k.attrs.get_string("comments");
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\\')) line += '.';  // in C the comment would go on
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

}  // namespace tl
