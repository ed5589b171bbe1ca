// Calls of resize for which the plan must choose a certain kernel.
#pragma once

#include <vector>

#include "myops/op.h"

using namespace myops;

namespace {

constexpr Layout kFirst = Layout::Contiguous, kLast = Layout::ChannelsLast;
constexpr DType F16 = DType::Float16, F32 = DType::Float32, F64 = DType::Float64, U8 = DType::UInt8;

struct Call {
  const char* kernel;
  int vector;  // bytes from which on it is chosen; another kernel computes it with shorter ones
  const char* mode;
  Shape input, output;
  DType dtype = F32;
  Layout layout = Layout::Contiguous;
  bool backward = false;  // from output to input
};

const std::vector<Call> kCalls = {
    {"slab_sum", 0, "linear", {1, 2, 9, 37}, {1, 2, 5, 37}},
    {"slab_sum", 0, "area", {3, 2, 30, 11}, {3, 2, 4, 11}, F64},
    // Many taps: of several vectors together, and of what is left of the slab.
    {"slab_sum", 0, "area", {1, 1, 90, 149}, {1, 1, 9, 149}, U8},
    {"slab_sum", 0, "area", {1, 2, 1400, 70}, {1, 2, 2, 70}},
    {"slab_sum", 0, "cubic", {1, 9, 25, 26}, {1, 9, 48, 51}, F16, kLast},
    {"slab_sum", 0, "linear", {1, 2, 7, 41}, {1, 2, 16, 41}, F32, kFirst, true},
    {"nearest_columns", 0, "nearest", {23, 9, 1, 7}, {23, 9, 1, 12}, F16},
    {"nearest_columns", 0, "nearest", {23, 9, 1, 3}, {23, 9, 1, 1}, F64},
    {"nearest_columns", 0, "nearest", {700, 9, 1, 40}, {700, 9, 1, 19}, F32, kFirst, true},
    {"planes", 0, "linear", {9, 41, 1, 3}, {9, 41, 1, 1}},
    {"planes", 0, "cubic", {9, 41, 1, 6}, {9, 41, 1, 15}, F16},
    {"planes", 0, "linear", {9, 41, 1, 4}, {9, 41, 1, 2}, F64, kFirst, true},
    // Tables of whole axes of more than 2 MiB. Gradients that shrink, and of at most four outputs
    // for each element, of at most sixteen and of more.
    {"long_rows", 0, "nearest", {1, 2, 1, 70000}, {1, 2, 1, 150000}, F16},
    {"long_rows", 0, "linear", {1, 1, 1, 90000}, {1, 1, 1, 80000}},
    {"long_rows", 0, "linear", {1, 1, 1, 150000}, {1, 1, 1, 70000}, F64},
    {"long_rows", 0, "linear", {1, 3, 1, 60000}, {1, 3, 1, 90000}, U8, kLast},
    {"long_rows", 0, "cubic", {1, 1, 40000, 1}, {1, 1, 60000, 1}},
    {"long_rows", 0, "linear", {1, 1, 1, 100000}, {1, 1, 1, 50001}, F32, kFirst, true},
    {"long_rows", 0, "linear", {1, 2, 1, 60000}, {1, 2, 1, 100000}, F16, kFirst, true},
    {"long_rows", 0, "linear", {1, 1, 1, 40000}, {1, 1, 1, 110000}, F32, kFirst, true},
    {"long_rows", 0, "linear", {1, 1, 1, 5000}, {1, 1, 1, 120000}, F64, kFirst, true},
    {"long_rows", 0, "nearest", {1, 1, 1, 150000}, {1, 1, 1, 90000}, F16, kFirst, true},
    {"long_rows", 0, "nearest", {1, 1, 1, 90000}, {1, 1, 1, 150000}, F32, kFirst, true},
    {"long_rows", 0, "cubic", {1, 3, 1, 50000}, {1, 3, 1, 70000}, F32, kLast, true},
    {"lanes", 0, "area", {1, 3, 19, 70}, {1, 3, 25, 41}, F16},
    {"lanes", 0, "area", {1, 3, 23, 90}, {1, 3, 7, 31}},
    {"lanes", 0, "area", {1, 3, 23, 90}, {1, 3, 7, 31}, F64},
    {"lanes", 0, "linear", {1, 3, 9, 70}, {1, 3, 12, 141}, F32, kFirst, true},
    {"lanes", 0, "cubic", {1, 3, 9, 70}, {1, 3, 5, 30}, F64, kLast, true},
    // Channels whose sums are made together, or one after the other, in whole tiles and in one that
    // is shorter than a vector.
    {"lanes", 0, "area", {1, 3, 40, 190}, {1, 3, 21, 41}, U8, kLast},
    {"lanes", 0, "area", {2, 4, 30, 60}, {2, 4, 19, 23}, F32, kLast},
    {"lanes", 0, "area", {1, 3, 40, 50}, {1, 3, 25, 20}, F64, kLast},
    {"lanes", 0, "area", {1, 2, 40, 40}, {1, 2, 21, 7}, F16, kLast},
    {"lanes", 0, "area", {1, 3, 40, 40}, {1, 3, 21, 5}, U8, kLast},
    // Rows shorter than a vector.
    {"lanes", 0, "linear", {1, 1, 400, 13}, {1, 1, 170, 6}},
    {"lanes", 0, "cubic", {1, 1, 1000, 5}, {1, 1, 1100, 3}, F64},
    {"lanes", 0, "linear", {1, 1, 29, 13}, {1, 1, 15, 6}, F16, kFirst, true},
    {"lanes", 0, "area", {1, 1, 29, 7}, {1, 1, 50, 2}, F16},
    {"slab_sum", 0, "area", {1, 1, 700, 9}, {1, 1, 50, 4}, F64},
    {"slab_sum", 0, "linear", {1, 1, 90, 7}, {1, 1, 200, 5}, F16, kFirst, true},
    // Rows of fewer bytes than a vector, and of one output.
    {"lanes", 0, "linear", {1, 1, 400, 7}, {1, 1, 170, 1}, U8},
    {"lanes", 0, "area", {1, 1, 400, 5}, {1, 1, 170, 1}, U8},
    {"lanes", 0, "area", {1, 1, 400, 4}, {1, 1, 170, 1}, U8},
    {"lanes", 0, "cubic", {1, 1, 400, 3}, {1, 1, 170, 2}, U8},
    {"lanes", 0, "linear", {1, 1, 400, 2}, {1, 1, 170, 3}, U8},
    {"lanes", 0, "area", {1, 1, 400, 7}, {1, 1, 170, 1}, F16},
    {"lanes", 0, "linear", {1, 1, 400, 5}, {1, 1, 170, 2}, F16},
    {"lanes", 0, "area", {1, 1, 400, 3}, {1, 1, 170, 1}, F16},
    {"lanes", 0, "area", {1, 1, 500, 4}, {1, 1, 270, 1}},
    {"lanes", 0, "cubic", {1, 1, 1100, 4}, {1, 1, 500, 1}, F64},
    // Rows that are made together by the dozen, of which a part is read; of one output and of more.
    {"lanes", 0, "linear", {1, 1, 1401, 5}, {1, 1, 709, 2}},
    {"lanes", 0, "linear", {1, 1, 1401, 5}, {1, 1, 709, 2}, F64},
    {"lanes", 0, "linear", {1, 1, 1401, 4}, {1, 1, 709, 1}, U8},
    {"lanes", 0, "linear", {1, 1, 1401, 9}, {1, 1, 309, 2}, F16},
    {"lanes", 0, "cubic", {1, 1, 1401, 9}, {1, 1, 309, 3}, F16},
    {"lanes", 0, "area", {1, 1, 1401, 4}, {1, 1, 350, 2}, F16},
    {"lanes", 0, "linear", {1, 1, 309, 9}, {1, 1, 1401, 2}, F32, kFirst, true},
    // Short slabs whose number of taps varies, also 0, up to 1, 2, 3 and 4.
    {"slab_sum", 0, "linear", {1, 1, 961, 19}, {1, 1, 912, 2}, F32, kFirst, true},
    {"slab_sum", 0, "linear", {1, 1, 701, 7}, {1, 1, 280, 2}, F64, kFirst, true},
    {"slab_sum", 0, "cubic", {1, 1, 31, 3}, {1, 1, 24, 2}, F16, kFirst, true},
    {"slab_sum", 0, "cubic", {1, 1, 31, 40}, {1, 1, 29, 20}, F32, kFirst, true},
    // Outputs that leave out most of a row's channels.
    {"slab_sum", 0, "linear", {1, 9, 30, 41}, {1, 9, 7, 18}, F16, kLast},
    {"planes", 0, "linear", {19, 2, 5, 7}, {19, 2, 3, 11}},
    {"planes", 0, "cubic", {19, 2, 5, 7}, {19, 2, 8, 4}, F16},
    {"planes", 0, "area", {33, 1, 6, 6}, {33, 1, 4, 5}, F64, kFirst, true},
    {"planes", 0, "linear", {17, 1, 3, 4, 5}, {17, 1, 5, 3, 4}},
    // Rows first and columns first, channels innermost, three axes with an axis between
    // that stays, axes that leave out elements at both ends, and as many taps as are taken.
    {"small", 0, "linear", {1, 3, 4, 18}, {1, 3, 1, 4}, F32, kFirst, true},
    {"small", 0, "cubic", {1, 1, 74, 5}, {1, 1, 13, 2}, F64, kFirst, true},
    {"small", 0, "linear", {1, 2, 5, 9}, {1, 2, 11, 4}, F32, kFirst, true},
    {"small", 0, "cubic", {1, 9, 5, 4}, {1, 9, 3, 3}, F16, kLast, true},
    {"small", 0, "linear", {1, 3, 7, 5}, {1, 3, 4, 9}, F32, kLast, true},
    {"small", 0, "area", {2, 2, 4, 5}, {2, 2, 3, 2}, F16},
    {"small", 0, "linear", {1, 2, 4, 5}, {1, 2, 7, 3}, U8},
    {"small", 0, "linear", {1, 1, 3, 4, 5}, {1, 1, 5, 3, 2}},
    {"small", 0, "linear", {1, 1, 9, 8, 6}, {1, 1, 2, 3, 2}},
    {"small", 0, "linear", {1, 1, 5, 4, 6}, {1, 1, 2, 4, 3}, F64, kFirst, true},
    {"small", 0, "cubic", {1, 1, 2, 11}, {1, 1, 4, 2}, F64},
    {"small", 0, "area", {1, 2, 16, 3}, {1, 2, 2, 2}, F32},
    // Gradients most of whose rows, or slabs of a volume, have no taps: from strips and from rings,
    // with channels innermost and with a last axis that is sparse, too.
    {"lanes", 0, "linear", {1, 2, 190, 90}, {1, 2, 31, 41}, F32, kFirst, true},
    {"slab_sum", 0, "cubic", {1, 19, 210, 23}, {1, 19, 20, 11}, F16, kLast, true},
    {"slab_sum", 0, "linear", {1, 3, 31, 40, 30}, {1, 3, 7, 10, 7}, F64, kFirst, true},
    {"one_by_one", 0, "linear", {1, 1, 1048}, {1, 1, 134}, F64, kFirst, true},
    // Gradients of one column: rows that are all zeros, or few, or combined first; up to 1, 2, 3, 4
    // and more rows in a sum; rows of fewer and of more elements than a vector, and no axis of
    // rows.
    {"one_column", 0, "linear", {1, 3, 1570, 5}, {1, 3, 200, 1}, F32, kFirst, true},
    {"one_column", 0, "linear", {1, 3, 73, 18}, {1, 3, 42, 1}, F32, kFirst, true},
    {"one_column", 0, "linear", {2, 1, 73, 40}, {2, 1, 42, 1}, F64, kFirst, true},
    {"one_column", 32, "linear", {1, 2, 65, 12}, {1, 2, 79, 1}, F32, kFirst, true},
    {"one_column", 0, "cubic", {2, 1, 930, 9}, {2, 1, 310, 1}, F64, kFirst, true},
    {"one_column", 0, "cubic", {2, 1, 31, 19}, {2, 1, 30, 1}, F16, kFirst, true},
    {"one_column", 32, "area", {1, 2, 51, 10}, {1, 2, 50, 1}, F16, kFirst, true},
    {"one_column", 0, "area", {1, 2, 195, 70}, {1, 2, 23, 1}, F32, kFirst, true},
    {"one_column", 64, "area", {1, 2, 90, 7}, {1, 2, 310, 1}, F64, kFirst, true},
    {"one_column", 0, "linear", {1, 9, 40}, {1, 9, 1}, F32, kFirst, true},
    {"one_column", 0, "area", {2, 9, 17}, {2, 9, 1}, F16, kFirst, true},
    // Rows without taps after sums with negative weights.
    {"one_column", 0, "cubic", {1, 1, 101, 5}, {1, 1, 4, 1}, F32, kFirst, true},
    {"one_column", 0, "cubic", {1, 1, 101, 50}, {1, 1, 4, 1}, F64, kFirst, true},
    // The last row, behind which nothing may be read, is one of two or of four, and several images.
    {"few_pixels", 32, "linear", {1, 3, 40, 95}, {1, 3, 19, 20}, F32, kLast},
    {"few_pixels", 32, "linear", {2, 2, 19, 90}, {2, 2, 3, 9}, F32, kLast},
    {"few_pixels", 32, "linear", {3, 4, 40, 70}, {3, 4, 9, 17}, F64, kLast},
    {"few_pixels", 32, "cubic", {2, 3, 40, 95}, {2, 3, 9, 15}, F32, kLast},
    {"few_pixels", 32, "linear", {2, 3, 40, 95}, {2, 3, 19, 13}},
    {"few_pixels", 32, "linear", {1, 1, 400, 9}, {1, 1, 100, 3}},
    {"few_pixels", 32, "linear", {1, 2, 60, 90}, {1, 2, 20, 20}, F64},
    {"few_pixels", 32, "cubic", {1, 4, 19, 60}, {1, 4, 7, 13}, F64, kLast},
    {"few_pixels", 32, "linear", {1, 3, 40, 95}, {1, 3, 19, 11}, F16, kLast},
    {"few_pixels", 32, "linear", {2, 4, 40, 70}, {2, 4, 9, 8}, U8, kLast},
    // Pairs of pixels: a last block of few, a last pixel whose load would end behind its row, one
    // that reads the last pixel twice, and every number of channels.
    {"few_pixels", 32, "linear", {2, 1, 40, 199}, {2, 1, 13, 37}, F32},
    {"few_pixels", 32, "linear", {1, 1, 30, 250}, {1, 1, 9, 37}, U8},
    {"few_pixels", 32, "linear", {1, 1, 30, 250}, {1, 1, 9, 37}, F16},
    {"few_pixels", 32, "cubic", {1, 1, 30, 190}, {1, 1, 9, 31}, F64},
    {"few_pixels", 32, "linear", {2, 2, 40, 99}, {2, 2, 13, 33}, U8, kLast},
    {"few_pixels", 32, "cubic", {2, 2, 40, 99}, {2, 2, 13, 23}, F16, kLast},
    {"few_pixels", 32, "cubic", {1, 2, 40, 99}, {1, 2, 13, 35}, F32, kLast},
    {"few_pixels", 32, "linear", {1, 3, 9, 35}, {1, 3, 4, 20}, F32, kLast},
    {"few_pixels", 32, "cubic", {2, 3, 40, 95}, {2, 3, 19, 25}, U8, kLast},
    {"few_pixels", 32, "cubic", {1, 3, 40, 95}, {1, 3, 19, 19}, F32, kLast},
    {"few_pixels", 32, "linear", {2, 4, 9, 35}, {2, 4, 4, 26}, F32, kLast},
    {"few_pixels", 32, "cubic", {1, 4, 40, 95}, {1, 4, 19, 31}, U8, kLast},
    {"few_pixels", 32, "cubic", {2, 4, 40, 95}, {2, 4, 19, 49}, F32, kLast},
    {"few_pixels", 32, "linear", {2, 3, 20, 13, 40}, {2, 3, 7, 5, 6}, F16, kLast},
    {"few_pixels", 32, "linear", {2, 1, 20, 33, 250}, {2, 1, 9, 15, 37}, U8},
    {"few_pixels", 32, "linear", {1, 2, 20, 13, 40}, {1, 2, 13, 5, 9}, F64, kLast},
    {"few_pixels", 32, "linear", {1, 1, 40, 33, 259}, {1, 1, 17, 15, 41}},
    // More channels: fewer than a vector has elements, as many, and more.
    {"few_pixels", 32, "linear", {2, 5, 40, 70}, {2, 5, 19, 17}, F32, kLast},
    {"few_pixels", 32, "linear", {1, 19, 40, 30}, {1, 19, 19, 20}, F32, kLast},
    {"few_pixels", 32, "linear", {2, 8, 19, 30}, {2, 8, 12, 29}, F64, kLast},
    {"few_pixels", 32, "cubic", {1, 33, 40, 30}, {1, 33, 9, 5}, F64, kLast},
    {"few_pixels", 32, "linear", {2, 16, 40, 30}, {2, 16, 19, 9}, F16, kLast},
    {"few_pixels", 32, "linear", {1, 5, 40, 70}, {1, 5, 19, 9}, U8, kLast},
    {"few_pixels", 32, "cubic", {1, 40, 19, 70}, {1, 40, 5, 9}, U8, kLast},
    // Volumes.
    {"few_pixels", 32, "linear", {1, 1, 40, 33, 59}, {1, 1, 17, 15, 8}},
    {"few_pixels", 32, "linear", {2, 1, 20, 33, 40}, {2, 1, 9, 15, 10}, F64},
    {"few_pixels", 32, "linear", {2, 3, 20, 13, 40}, {2, 3, 13, 5, 9}, F32, kLast},
    {"few_pixels", 32, "linear", {1, 9, 20, 13, 15}, {1, 9, 13, 5, 9}, F64, kLast},
    {"few_pixels", 32, "linear", {2, 4, 20, 13, 60}, {2, 4, 7, 5, 7}, U8, kLast},
    {"few_pixels", 32, "linear", {2, 19, 20, 13, 30}, {2, 19, 13, 5, 9}, F16, kLast},
    // Columns first and rows first, a single axis, and a single row.
    {"pixels", 32, "linear", {2, 3, 20, 95}, {2, 3, 40, 30}, F32, kLast},
    {"pixels", 32, "linear", {1, 3, 9, 90}, {1, 3, 20, 40}, F64, kLast},
    {"pixels", 32, "cubic", {1, 4, 20, 95}, {1, 4, 19, 20}, F32, kLast},
    {"pixels", 32, "linear", {1, 3, 20, 95}, {1, 3, 40, 30}, U8, kLast},
    {"pixels", 32, "cubic", {1, 3, 40, 95}, {1, 3, 20, 30}, U8, kLast},
    {"pixels", 32, "linear", {2, 3, 20, 95}, {2, 3, 40, 20}, F16, kLast},
    {"pixels", 32, "linear", {1, 4, 7, 95}, {1, 4, 7, 31}, F16, kLast},
    {"pixels", 32, "linear", {1, 3, 1, 95}, {1, 3, 1, 30}, F32, kLast},
    {"pixels", 32, "linear", {1, 4, 20, 70}, {1, 4, 40, 75}, F64, kLast},
    {"row_pairs", 32, "linear", {1, 2, 9, 150}, {1, 2, 20, 301}},
    {"row_pairs", 32, "linear", {1, 2, 1500, 800}, {1, 2, 750, 400}},
    {"row_pairs", 32, "linear", {1, 3, 1100, 800}, {1, 3, 660, 560}, F32, kLast},
    {"row_pairs", 64, "linear", {1, 2, 9, 150}, {1, 2, 20, 301}, F64},
    // Short rows, in batches.
    {"row_pairs", 32, "linear", {1, 2, 41, 30}, {1, 2, 57, 45}},
    {"row_pairs", 32, "linear", {1, 2, 41, 150}, {1, 2, 57, 100}},
    {"row_pairs", 32, "linear", {1, 3, 36000, 20}, {1, 3, 32000, 16}, F32, kLast},
    {"row_pairs", 64, "linear", {1, 3, 16000, 20}, {1, 3, 14400, 16}, F64, kLast},
    {"row_pairs", 64, "linear", {1, 2, 4400, 150}, {1, 2, 2160, 71}, F64},
    {"row_pairs", 64, "linear", {1, 3, 4500, 99}, {1, 3, 2500, 70}, F64, kLast},
    {"row_pairs", 0, "linear", {1, 29, 9, 14}, {1, 29, 20, 9}, F32, kLast},
    {"row_pairs", 0, "linear", {1, 99, 19, 14}, {1, 99, 8, 19}, F64, kLast},
    // Taps so far apart that an instruction gathers them.
    {"row_pairs", 32, "linear", {1, 2, 3000, 500}, {1, 2, 1500, 140}},
    {"gather", 64, "linear", {1, 5, 9, 500}, {1, 5, 20, 61}, F64, kLast},
    {"gather", 32, "linear", {1, 1, 3, 700}, {1, 1, 3, 101}},
    {"gather", 32, "linear", {1, 2, 19, 500}, {1, 2, 40, 93}},
    {"gather", 64, "linear", {1, 2, 19, 598}, {1, 2, 19, 125}, F64},
    // Four neighbours far from those of the next element.
    {"gather", 32, "cubic", {1, 2, 9, 700}, {1, 2, 15, 101}},
    {"gather", 32, "cubic", {1, 2, 30, 700}, {1, 2, 5, 150}},
    {"gather", 32, "cubic", {1, 2, 9, 150}, {1, 2, 5, 301}},
    {"gather", 32, "cubic", {1, 2, 9, 150}, {1, 2, 5, 301}, F64},
    {"gather", 32, "cubic", {1, 3, 9, 90}, {1, 3, 15, 75}, F64, kLast},
    {"gather", 32, "linear", {1, 1, 1, 150}, {1, 1, 1, 301}, F64},
    // From elements and to elements that are not those of the sums.
    {"gather", 32, "linear", {1, 3, 19, 70}, {1, 3, 25, 41}, F16},
    {"gather", 32, "linear", {1, 3, 9, 50}, {1, 3, 18, 100}, U8, kLast},
    {"gather", 32, "cubic", {1, 3, 40, 150}, {1, 3, 21, 80}, F16, kLast},
    {"gather", 32, "linear", {1, 2, 20, 90}, {1, 2, 9, 120}, U8},
    {"gather", 32, "linear", {1, 1, 1, 150}, {1, 1, 1, 301}, U8},
    {"gather", 32, "nearest", {1, 2, 40, 35}, {1, 2, 80, 70}, F16, kFirst, true},
    {"one_by_one", 0, "area", {1, 1, 1, 150}, {1, 1, 1, 31}},
    // Many taps side by side, more than are added together.
    {"one_by_one", 0, "area", {1, 5, 700}, {1, 5, 3}},
    {"one_by_one", 0, "area", {1, 5, 1301}, {1, 5, 2}, F64},
    {"one_by_one", 0, "area", {1, 5, 1301}, {1, 5, 2}, F16},
    {"nearest_gather", 32, "nearest", {1, 2, 9, 150}, {1, 2, 15, 301}},
    {"nearest_gather", 32, "nearest", {1, 2, 9, 150}, {1, 2, 5, 300}, F64},
    {"nearest_gather", 32, "nearest", {1, 2, 9, 150}, {1, 2, 41, 225}, F64},
    {"nearest_gather", 32, "nearest", {1, 3, 9, 90}, {1, 3, 18, 180}, F64, kLast},
    {"nearest_byte_shuffle", 32, "nearest", {1, 2, 19, 150}, {1, 2, 15, 301}, F16},
    {"nearest_byte_shuffle", 32, "nearest", {1, 3, 19, 150}, {1, 3, 25, 91}, U8, kLast},
    // A few channels, which are copied together where the axis shrinks.
    {"nearest_copy", 0, "nearest", {1, 3, 40, 90}, {1, 3, 31, 29}, F64, kLast},
    {"nearest_copy", 0, "nearest", {1, 2, 9, 150}, {1, 2, 12, 37}, F64},
    {"nearest_copy", 0, "nearest", {1, 2, 1, 150}, {1, 2, 1, 38}, F64},
    {"nearest_copy", 0, "nearest", {1, 3, 40, 290}, {1, 3, 31, 29}, F32, kLast},
    {"nearest_copy", 0, "nearest", {1, 3, 5, 90}, {1, 3, 4, 31}, F16, kLast},
    {"nearest_copy", 0, "nearest", {1, 2, 5, 9}, {1, 2, 7, 1}, U8, kLast},
    {"nearest_copy", 0, "nearest", {1, 3, 1, 90}, {1, 3, 1, 31}, U8, kLast},
    {"nearest_copy", 0, "nearest", {1, 40, 9, 15}, {1, 40, 5, 31}, F16, kLast},
    {"nearest_copy", 0, "nearest", {1, 3, 40, 18}, {1, 3, 31, 3}},
    {"nearest_copy", 0, "nearest", {1, 3, 40, 9}, {1, 3, 31, 1}, F32, kLast},
    {"nearest_copy", 0, "nearest", {1, 3, 40, 11}, {1, 3, 50, 5}, U8},
    {"nearest_slabs", 0, "nearest", {1, 2, 9, 150}, {1, 2, 15, 91}, F64},
    {"nearest_scatter", 0, "nearest", {1, 2, 31, 150}, {1, 2, 9, 61}, F32, kFirst, true},
    {"nearest_scatter", 0, "nearest", {2, 3, 40, 7}, {2, 3, 13, 2}, F16, kFirst, true},
    {"nearest_scatter", 0, "nearest", {1, 19, 12, 9}, {1, 19, 5, 4}, F64, kLast, true},
    {"nearest_scatter", 0, "nearest", {1, 5, 12, 9}, {1, 5, 5, 4}, F16, kLast, true},
    // Sums, almost all of which are zero.
    {"nearest_scatter", 0, "linear", {2, 3, 62, 18, 5}, {2, 3, 14, 4, 1}, F32, kFirst, true},
    {"nearest_scatter", 0, "linear", {1, 9, 120, 130}, {1, 9, 5, 17}, F16, kLast, true},
    {"nearest_scatter", 0, "linear", {1, 2, 90, 3, 80}, {1, 2, 6, 3, 9}, F64, kFirst, true},
    {"nearest_scatter", 0, "linear", {1, 3, 190, 80}, {1, 3, 6, 40}, F32, kFirst, true},
    {"nearest_scatter", 0, "linear", {1, 3, 190}, {1, 3, 7}, F32, kFirst, true},
    // Slabs that do not fit the L1 cache, with tensors of the next level between.
    {"nearest_scatter", 0, "nearest", {1, 9, 3, 3001}, {1, 4, 3, 1400}, F64, kFirst, true},
    // Axes that shrink before the last two are combined first; those that grow, from a ring.
    {"slab_sum", 0, "area", {1, 2, 31, 6, 45}, {1, 2, 7, 9, 70}, F32},
    {"slab_sum", 0, "linear", {1, 1, 6, 7, 45}, {1, 1, 31, 3, 20}, F16, kFirst, true},
    {"slab_sum", 0, "linear", {1, 31, 2, 45}, {1, 7, 2, 70}, F64},
    {"slab_sum", 0, "linear", {1, 1, 6, 19, 45}, {1, 1, 13, 9, 20}, F32},
};

}  // namespace
