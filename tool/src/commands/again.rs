//! The options of commands that make something, for scripts that run them again.

use clap::Args;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use jeton_tool::{Cause, Error};

/// Values that completions propose. Other values are accepted too.
#[derive(Clone)]
pub struct Proposed(pub &'static [&'static str]);

impl TypedValueParser for Proposed {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// What happens if there is one already.
#[derive(Args, Clone)]
pub struct Again {
    /// If there is one already, show it, change nothing, and exit with 0.
    #[arg(long)]
    pub if_absent: bool,
    /// Make another one, even if there is one with this label or ID.
    #[arg(long, conflicts_with = "if_absent")]
    pub allow_duplicate: bool,
}

impl Again {
    /// Returns the error of a command that would make a second one.
    pub fn refused(what: &str) -> Error {
        let text =
            format!("there is {what} already; --if-absent keeps it, --allow-duplicate makes another one");
        Error::Caused(Cause::Exists, text)
    }
}
