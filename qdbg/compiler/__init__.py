"""CUDA -> PTX -> typed IR -> machine program, and netlist -> layers -> checkpoint."""
