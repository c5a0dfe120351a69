//! What a pipeline must hold, each in a file of its own.

mod alignment;
mod common;
mod evaluation;
mod faults;
mod memory;
mod methods;
mod oracle;
mod replicas;
mod resume;
mod text;
