"""The hardware compiler: circuit description -> schedule -> weights -> checkpoint.

Read in this order: `signals` and `netlist` (what a circuit is), `heads` (memory made of DeltaNet
heads), `schedule` (which layer, which residual dimension), `check` (exactness in bfloat16), `emit`
(weights) and `checkpoint` (files).  `simulate` runs a netlist bit by bit without a model.
"""
