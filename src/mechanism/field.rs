//! The log line of a field of a mechanism's parameter that a function refuses. The C interface logs
//! the fields that it refuses itself.

use tracing::debug;

use crate::error::Error;

/// Logs the name of a refused field, or of several that do not fit each other. Returns the error.
#[cold]
pub(crate) fn refused(field: &'static str) -> Error {
    debug!(field, "the parameter is refused");
    Error::MechanismParamInvalid
}
