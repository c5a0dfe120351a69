//! Optimal snapshot schedules: which states of a long chain to keep, which to compute again, and which to fetch
//! back from slower storage.
//!
//! # The problem
//! A chain is `n` steps `x_{i+1} = f_i(x_i)`: the time steps of a solver or a recurrent network, the layers of a network.
//! Going backward, step `i` needs `x_i`, for `i` from `n - 1` down to 0. With too little memory for all states, some
//! are kept as *snapshots* in *slots* and the others computed again from those.
//!
//! A schedule here is an iterator of [`Action`]s, each a sentence that makes sense by itself. No schedule
//! touches data: a program obeys the actions, the [`Interpreter`] checks them, the [`Simulator`] times them, and
//! [`draw`] shows them.
//!
//! ```
//! use reprop_schedule::{Action, Revolve};
//!
//! // x_{i+1} = 2 x_i + i; its derivative by the first state is 2^n. Ten steps, three slots.
//! let (mut state, mut slots, mut gradient) = (1.0, [0.0; 3], 1.0);
//! for action in Revolve::new(10, 3)? {
//!     match action {
//!         Action::Forward { from, to } => (from..to).for_each(|i| state = 2.0 * state + i as f64),
//!         Action::Save { slot, .. } => slots[slot.index] = state,
//!         Action::Load { slot, .. } => state = slots[slot.index],
//!         Action::Reverse { .. } => gradient *= 2.0,
//!         other => unreachable!("Revolve never says {other}"),
//!     }
//! }
//! assert_eq!(gradient, 1024.0);
//! # Ok::<(), reprop_schedule::Error>(())
//! ```
//!
//! # Which schedule
//! | you have | use | not |
//! |---|---|---|
//! | memory for every state | [`Stored`] | |
//! | memory for some | [`Revolve`] | |
//! | memory for some, and saved tensors no larger than a state | [`Mixed`] | for networks whose saved tensors are large |
//! | a chain whose end is not known | [`Online`] | when it is |
//! | a disk, and transfers in the background | [`Async`] | |
//! | a disk, transfers waited for | [`DiskRevolve`], [`HRevolve`] if it is small | when they can be hidden |
//! | that, and a very long chain | [`Periodic`] | up to some ten thousand steps |
//! | slots of two kinds at about the same price | [`Multistage`] | when transfers are dear |
//! | steps of different times and sizes, and a budget in bytes | [`Budgeted`] | for like steps |
//! | that, and a second memory | [`Offloaded`] | for like steps |
//!
//! # How cost is counted
//! `makespan = forward * advances + backward * steps + transfers that are not hidden`. A reverse step includes
//! the forward that records what it needs, so `forward_evaluations = advances + steps`. The slot of `x_0` is
//! counted; the working state is not.
//!
//! # Sources
//! Griewank & Walther, *Revolve* (2000). Stumm & Walther, *multistage* (2009) and *online* (2010). Wang, Moin &
//! Iaccarino (2009). Aupy, Herrmann, Hovland & Robert, *Disk-Revolve* (2016); Aupy & Herrmann, *periodic* (2017). Beaumont,
//! Eyraud-Dubois, Herrmann, Joly & Shilova, *rotor* (2019). Herrmann & Pallez, *H-Revolve* (2020). Beaumont,
//! Eyraud-Dubois & Shilova, *POFO* (2021). Maddison, *mixed* (2024). Kukreja, Hückelheim & Gorman, *asynchronous
//! multistage* (2018).

mod action;
mod asynchronous;
mod binomial;
mod bound;
mod budgeted;
mod chain;
mod costs;
mod disk_revolve;
pub mod draw;
mod error;
mod h_revolve;
mod interpreter;
mod least;
mod method;
mod mixed;
mod multistage;
mod offloaded;
mod online;
mod periodic;
mod pool;
mod report;
mod revolve;
mod simulator;
mod stored;
mod tiers;

pub use action::{Action, Slot};
pub use asynchronous::Async;
pub use binomial::{advances, beta, repetitions, snapshots};
pub use bound::{lower_bound, orderly_bound};
pub use budgeted::Budgeted;
pub use chain::{Chain, Step};
pub use costs::{Costs, Prices, Transfer};
pub use disk_revolve::DiskRevolve;
pub use error::Error;
pub use h_revolve::{HRevolve, Tier};
pub use interpreter::{Broken, Counts, Interpreter, check};
pub use method::Method;
pub use mixed::Mixed;
pub use multistage::Multistage;
pub use offloaded::Offloaded;
pub use online::Online;
pub use periodic::Periodic;
pub use report::{Actions, Report, Request};
pub use revolve::Revolve;
pub use simulator::{Channels, Event, Lane, Run, Simulator, simulate};
pub use stored::Stored;
