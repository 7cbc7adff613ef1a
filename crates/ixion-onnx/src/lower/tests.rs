//! Tests of branches, loops, sequences, functions, and of models that are wrong.

mod control;
mod functions;
mod hostile;
mod sequences;
