//! PyTorch files: those of PyTorch itself, our own, and hostile ones.

mod hostile;
mod real;
mod support;
mod written;
