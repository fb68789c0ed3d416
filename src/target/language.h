// What the chips of one family share, whatever the chip: the text that kernels become, and how a target
// string names them.  A language is a row, as a chip is: no code compares its name, and what differs among
// languages is a column here, or a table keyed by the row (printers: compile/compile.cpp; device compilers,
// keyed by its name: runtime/build.cpp).
#pragma once
#include <span>
#include <string_view>

namespace tl {

// A call that a language has no text for.
struct Lacking {
  std::string_view call;  // the intrinsic's name; `*` stands for any part of it
  int bits;               // of its first argument; 0: any
  std::string_view why;
};

struct Language {
  std::string_view name = {};         // in reports, in a Program, for editors of generated text
  std::string_view kind = {};         // the first word of a target string: "cuda" in "cuda -arch=sm_80"
  std::string_view synonym = {};      // another word for it; empty: there is none
  std::string_view chip_option = {};  // what stands before the chip there: "-arch="
  std::string_view suffix = {};       // of a file that holds its text
  std::string_view machine = {};      // what runs it, for messages
  bool has_threads = false;  // its chips run many threads a block, and the simulator runs their programs
  bool takes_ptx = false;    // T.ptx and the matrix instructions that users register are text for it
  bool takes_nvcc_flags = false;
  std::span<const Lacking> lacking = {};
  bool tells_lines = false;  // its text contains the user's lines, for failures at run time

  // Why it has no text for a call of that name, with a first argument of so many bits; empty: it has.
  std::string_view why_not(std::string_view call, int bits) const;
};

extern const Language cuda_language, hip_language, llvm_language;

std::span<const Language* const> all_languages();
const Language* find_language(std::string_view name);  // null if there is none of that name

}  // namespace tl
