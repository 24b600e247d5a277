//! The reasons why work on the server failed, and their errors of the core.

use tokio_postgres::error::{Severity, SqlState};
use tracing::{debug, error};

use crate::error::Error;

/// The reason why work on the server failed.
pub(super) enum Fault {
    /// The core refused to continue. The transaction is rolled back.
    Refused(Error),
    /// The server or the client library reported an error.
    Database(tokio_postgres::Error),
    /// The server could not be reached, or did not answer in time.
    Unreachable(String),
    /// There is no connection, and none is tried for now. The log has the reason.
    Paused,
}

pub(super) type Outcome<T> = Result<T, Fault>;

impl From<tokio_postgres::Error> for Fault {
    fn from(reason: tokio_postgres::Error) -> Self {
        Self::Database(reason)
    }
}

impl Fault {
    /// Returns the fault of a row that is not as this version writes it.
    pub(super) fn malformed(what: &str) -> Self {
        error!("store: {what} in the database is malformed");
        Self::Refused(Error::TokenNotRecognized)
    }

    /// Returns whether the connection cannot be used any more.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Unreachable(_) | Self::Paused => true,
            Self::Database(reason) => reason.as_db_error().is_none_or(|reason| {
                matches!(reason.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
            }),
        }
    }

    /// Returns whether the server rolled the transaction back because of another one. The same
    /// transaction may succeed now.
    pub(super) fn is_conflict(&self) -> bool {
        let conflicts = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
        matches!(self, Self::Database(reason) if reason.code().is_some_and(|code| conflicts.contains(&code)))
    }

    /// Returns the code of the server's error.
    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Database(reason) => reason.code(),
            Self::Refused(_) | Self::Unreachable(_) | Self::Paused => None,
        }
    }

    /// Returns the reason for the log. It contains no secret: the server sees none.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Refused(reason) => format!("{reason:?}"),
            Self::Unreachable(reason) => reason.clone(),
            Self::Paused => "the database could not be reached a moment ago".to_owned(),
            Self::Database(reason) => match reason.as_db_error() {
                Some(reason) => format!("{} ({})", reason.message(), reason.code().code()),
                None => described(reason),
            },
        }
    }

    /// Logs the reason and returns the error for the caller.
    pub(super) fn log(self, what: &str) -> Error {
        if let Self::Refused(reason) = self {
            return reason;
        }
        match self {
            Self::Paused => debug!("store, {what}: {}", self.text()),
            _ => error!("store, {what}: {}", self.text()),
        }
        match self.code() {
            Some(code) if *code == SqlState::DISK_FULL => Error::DeviceMemory,
            _ => Error::DeviceError,
        }
    }
}

/// Returns an error of the client library with its cause.
fn described(reason: &tokio_postgres::Error) -> String {
    match std::error::Error::source(reason) {
        Some(cause) => format!("{reason}: {cause}"),
        None => reason.to_string(),
    }
}
