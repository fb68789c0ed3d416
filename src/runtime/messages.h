// Output of generated CPU code: lines of T.print, and the first failed assertion of a launch.
#pragma once

namespace tl {

void print_line(const char* format, ...);  // "tl_print" in the text
void note_failure(const char* message);  // "tl_fail": the block ends; the message lives as long as the module
const char* take_failure();              // what this thread's blocks noted first, once; or null
[[noreturn]] void raise_failure(const char* message);  // RuntimeError

}  // namespace tl
