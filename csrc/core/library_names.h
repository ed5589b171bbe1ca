// What a library is called outside: the domain of its ONNX nodes and the namespace of its torch
// ops. The build defines both; what follows is for the library of this project.
#pragma once

#ifndef MYOPS_DOMAIN
#define MYOPS_DOMAIN "myops"
#endif
#ifndef MYOPS_NAMESPACE
#define MYOPS_NAMESPACE "myops"
#endif
