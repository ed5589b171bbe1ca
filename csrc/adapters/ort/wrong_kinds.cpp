#include "wrong_kinds.h"

#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace myops::ort {
namespace {

struct Notes {
  std::map<std::pair<const Op*, size_t>, const char*> of_attributes;
  // Kernels are being created; further shape inference belongs to another graph.
  bool are_complete = false;
};

std::mutex mutex;

// By thread. Not thread_local, because that would prevent the library from being unloaded.
std::map<std::thread::id, Notes>& all_notes() {
  static std::map<std::thread::id, Notes> notes;
  return notes;
}

}  // namespace

void forget_wrong_kinds() {
  const std::lock_guard<std::mutex> lock(mutex);
  all_notes().erase(std::this_thread::get_id());
}

void infer_next_node() {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto place = all_notes().find(std::this_thread::get_id());
  if (place != all_notes().end() && place->second.are_complete) all_notes().erase(place);
}

void note_wrong_kind(const Op& op, size_t attribute, const char* literal) {
  const std::lock_guard<std::mutex> lock(mutex);
  all_notes()[std::this_thread::get_id()].of_attributes[{&op, attribute}] = literal;
}

void create_next_kernel() {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto place = all_notes().find(std::this_thread::get_id());
  if (place != all_notes().end()) place->second.are_complete = true;
}

const char* noted_wrong_kind(const Op& op, size_t attribute) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto place = all_notes().find(std::this_thread::get_id());
  if (place == all_notes().end()) return nullptr;
  const auto note = place->second.of_attributes.find({&op, attribute});
  return note == place->second.of_attributes.end() ? nullptr : note->second;
}

}  // namespace myops::ort
