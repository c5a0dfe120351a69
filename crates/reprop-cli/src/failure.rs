//! Failures as users see them: one sentence with the numbers in it, and a way out where there is one.

use std::fmt;
use std::process::ExitCode;

/// Why a command ended before its time.
#[derive(Debug)]
pub struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
    usage: bool,
}

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { error: anyhow::Error::msg(message.into()), hint: None, usage: false }
    }

    /// The user asked for something that cannot be: exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { usage: true, ..Self::new(message) }
    }

    /// A way out.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Prints the message, what caused it, and the hint.
    pub fn print(&self) {
        eprintln!("error: {:#}", self.error);
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
    }

    /// Where it happened.
    pub fn within(self, place: String) -> Self {
        Self { error: self.error.context(place), ..self }
    }

    /// 2 for wrong usage, 1 for everything else.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code() as u8)
    }

    /// The exit code as a number.
    pub fn code(&self) -> i32 {
        if self.usage { 2 } else { 1 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.error)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: error.into(), hint: None, usage: false }
    }
}
