// Whole files, read and written in one piece.  A write goes to a temporary name beside the target and is
// renamed: a reader sees the old file or the new one, never a part.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tl {

std::optional<std::string> read_file(const std::string& path);

// False, with errno set, if it could not; then nothing is left behind.
bool write_file_atomic(const std::string& path, std::string_view bytes, unsigned mode = 0644);

// Makes the folder and its parents, the last one with `mode`.  True if it is there afterwards.
bool make_folders(const std::string& path, unsigned mode = 0755);

// Where programs keep what they can make again: $XDG_CACHE_HOME, else ~/.cache; empty if there is no home.
std::string cache_home();

// The value of an environment variable, or what was set here in its place; empty if there is neither.
std::string environment(const char* name);
void set_environment(const std::string& name, std::optional<std::string> value);  // nothing: as it was

}  // namespace tl
