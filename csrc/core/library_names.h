// The names of a library: the domain of its ONNX nodes and the namespace of its torch ops. The
// build defines both; the defaults below are those of this project's own library.
#pragma once

#ifndef MYOPS_DOMAIN
#define MYOPS_DOMAIN "myops"
#endif
#ifndef MYOPS_NAMESPACE
#define MYOPS_NAMESPACE "myops"
#endif
