// 200 ops: add_1000 to add_1199.
#include "numbered.h"

#define TEN(tens)   \
  NUMBERED(tens##0) \
  NUMBERED(tens##1) \
  NUMBERED(tens##2) \
  NUMBERED(tens##3) \
  NUMBERED(tens##4) \
  NUMBERED(tens##5) \
  NUMBERED(tens##6) \
  NUMBERED(tens##7) \
  NUMBERED(tens##8) \
  NUMBERED(tens##9)

#define HUNDRED(hundreds) \
  TEN(hundreds##0)        \
  TEN(hundreds##1)        \
  TEN(hundreds##2)        \
  TEN(hundreds##3)        \
  TEN(hundreds##4)        \
  TEN(hundreds##5)        \
  TEN(hundreds##6)        \
  TEN(hundreds##7)        \
  TEN(hundreds##8)        \
  TEN(hundreds##9)

HUNDRED(10)
HUNDRED(11)
