// A text finds what nvcc gives every program: the names of integers of C's headers, and CUDA's headers of
// narrow floats, where it names one of their types.
#include "codegen/foreign_text.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "ir/rewrite.h"
#include "target/effects.h"

namespace tl::c {
namespace {

// The identifiers of a text.
void names_in(std::string_view text, std::set<std::string>& names) {
  std::string word;
  for (size_t i = 0; i <= text.size(); i++) {
    unsigned char ch = i < text.size() ? static_cast<unsigned char>(text[i]) : ' ';
    if (std::isalnum(ch) || ch == '_') {
      word += char(ch);
      continue;
    }
    if (!word.empty() && !std::isdigit(static_cast<unsigned char>(word[0]))) names.insert(word);
    word.clear();
  }
}

constexpr std::string_view integers[][2] = {
    {"ushort", "unsigned short"}, {"uint", "unsigned"},
    {"ulong", "unsigned long"},   {"int8_t", "signed char"},
    {"int16_t", "short"},         {"int32_t", "int"},
    {"int64_t", "long"},          {"uintptr_t", "unsigned long"},
    {"uint8_t", "unsigned char"}, {"uint16_t", "unsigned short"},
    {"uint32_t", "unsigned"},     {"uint64_t", "unsigned long"},
};

struct Header {
  std::string_view name;
  std::vector<std::string_view> types;  // the first is that of one element
};
const Header headers_of_floats[] = {
    {"cuda_fp16.h", {"half", "half2", "__half", "__half2"}},
    {"cuda_bf16.h", {"__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16", "nv_bfloat162"}},
    {"cuda_fp8.h", {"__nv_fp8_e4m3", "__nv_fp8_e5m2", "__nv_fp8x2_e4m3", "__nv_fp8x4_e4m3"}},
};

// What stands in front of the text; the element types of the headers go into `out`.
std::string head_of(ForeignText& out, bool headers) {
  std::set<std::string> words;
  names_in(out.text, words);
  std::string head;
  for (const Header& header : headers_of_floats) {
    auto used =
        std::ranges::find_if(header.types, [&](auto type) { return words.contains(std::string(type)); });
    if (!headers || used == header.types.end()) continue;
    if (header.name == "cuda_fp16.h") out.half = "half";
    if (header.name == "cuda_bf16.h") out.bfloat = "__nv_bfloat16";
    if (out.text.find(header.name) == out.text.npos) head += fmt::format("#include <{}>\n", header.name);
  }
  auto brings = [&](const std::string& words_of_it) { return out.text.find(words_of_it) != out.text.npos; };
  for (std::string name : {"half_t", "bf16_t"}) {
    bool own = brings("struct " + name) || brings(" " + name + ";") || brings("using " + name + " ");
    if (words.contains(name) && !own && !out.names.contains(name)) out.sections.insert(name);
  }
  for (auto& [name, type] : integers) {
    bool own = brings(fmt::format(" {};", name)) || brings(fmt::format("using {} ", name));
    if (!own && words.contains(std::string(name)) && !out.names.contains(std::string(name)))
      head += fmt::format("typedef {} {};\n", type, name);
  }
  return head.empty() ? head : "\n" + head;
}

}  // namespace

ForeignText foreign_text(const Function& f, bool headers) {
  ForeignText out;
  std::vector<std::string> sources;
  for (auto& k : f.kernels) {
    std::string text = k.attrs.get_string("source");
    if (!text.empty() && std::ranges::find(sources, text) == sources.end()) sources.push_back(text);
    visit(k.body, [&](const Call& n) {
      if (n.intrinsic == &call_extern || n.intrinsic == &call_pure_extern)
        names_in(n.args[0].as<StringImm>()->value, out.names);
    });
  }
  for (auto& s : sources) {
    out.text += "\n" + s + (s.ends_with('\n') ? "" : "\n");
    for (size_t at = s.find("#define"); at != s.npos; at = s.find("#define", at + 1))
      names_in(s.substr(at + 7, s.find_first_of("(\n", at) - at - 7), out.names);
  }
  out.text = head_of(out, headers) + out.text;
  for (auto& type : {out.half, out.bfloat})
    if (!type.empty()) out.names.insert(type);
  return out;
}

bool is_foreign_kernel(const Kernel& k) { return k.attrs.find("source_entry"); }

}  // namespace tl::c
