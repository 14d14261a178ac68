"""qdbg: a terminal debugger for programs that run inside a transformer's weights."""

__version__ = "0.1.0"
