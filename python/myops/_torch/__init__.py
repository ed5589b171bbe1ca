"""An op in PyTorch, derived from its description: fake kernel, autograd, vmap, call paths."""
