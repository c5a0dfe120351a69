//! The names of the schedules.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The schedules by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// [`Stored`](crate::Stored).
    Stored,
    /// [`Revolve`](crate::Revolve).
    Revolve,
    /// [`Mixed`](crate::Mixed).
    Mixed,
    /// [`Multistage`](crate::Multistage).
    Multistage,
    /// [`DiskRevolve`](crate::DiskRevolve).
    DiskRevolve,
    /// [`Periodic`](crate::Periodic).
    Periodic,
    /// [`HRevolve`](crate::HRevolve).
    HRevolve,
    /// [`Online`](crate::Online), told the end when it is reached.
    Online,
    /// [`Async`](crate::Async).
    Async,
}

impl Method {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Stored,
        Self::Revolve,
        Self::Mixed,
        Self::Multistage,
        Self::DiskRevolve,
        Self::Periodic,
        Self::HRevolve,
        Self::Online,
        Self::Async,
    ];

    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Revolve => "revolve",
            Self::Mixed => "mixed",
            Self::Multistage => "multistage",
            Self::DiskRevolve => "disk-revolve",
            Self::Periodic => "periodic",
            Self::HRevolve => "h-revolve",
            Self::Online => "online",
            Self::Async => "async",
        }
    }

    /// Whether it has a second tier.
    pub(crate) fn uses_disk(self) -> bool {
        matches!(self, Self::Multistage | Self::DiskRevolve | Self::Periodic | Self::HRevolve | Self::Async)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|method| method.name() == name);
        found.ok_or_else(|| Error::UnknownMethod(name.to_owned()))
    }
}
