//! The laws that every network, block and strategy must keep, each in a file of its own.

mod accumulation;
mod arithmetic;
mod common;
mod couplings;
mod errors;
mod evaluation;
mod finite_differences;
mod frozen;
mod masks;
mod networks;
mod open_tapes;
mod precisions;
mod prediction;
mod side_inputs;
mod threads;
mod tied;
mod transitions;
