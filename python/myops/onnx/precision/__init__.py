"""Models in fewer bits: half precision (`to_half`) and int8 (`quantize`)."""
