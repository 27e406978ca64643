"""Native code: LLVM IR as text, compiled through llvmlite, kept on disk, called from Python, run by a pool of workers."""
