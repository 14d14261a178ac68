"""The `sparse` engine: a general executor of Qwen3.5 text checkpoints that skips zeros.

It knows nothing of the machine.  `pack` reads a checkpoint's safetensors, `single` makes one forward
pass of one token, `block` checks many tokens at once (both from `elementary` operations and the
`delta` rule), `engine` is the engine.
"""
