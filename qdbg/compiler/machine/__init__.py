"""The SIMT GPU that lives in the weights: its parameters, instruction set, tokens and circuits."""
