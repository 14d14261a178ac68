"""The `sparse` engine: a general executor of Qwen3.5 text checkpoints that skips zeros.

It knows nothing of the machine.  `pack` reads a checkpoint's safetensors, `cache` keeps what comes of
it.  `single` makes one forward pass of one token, `block` checks 64 tokens at once, both from operations
that stand in `elementary`, `delta`, `many` and `block_delta`.  These are compiled to object files by
`compile`; `native` loads them, `model` lays out the memory that they work on, `engine` calls them.
"""
