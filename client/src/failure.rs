//! A failed call: the function, its return code, and the step of the caller.

use std::borrow::Cow;

use cryptoki_sys::{CK_RV, CKR_OK};

use super::names;

/// A function of the module is missing, or returned something other than `CKR_OK`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}: {} while {doing}", names::return_code(*code))]
pub struct Failure {
    /// The function of the C interface, e.g. `C_Login`.
    pub function: &'static str,
    /// The return code, `CKR_…`.
    pub code: CK_RV,
    /// The step of the caller, for example `logging in as the user`.
    pub doing: Cow<'static, str>,
}

impl Failure {
    /// Returns the name and the number of the return code, as [`names::return_code`] does.
    pub fn code_name(&self) -> String {
        names::return_code(self.code)
    }
}

/// Gives the step that failed a more precise name.
pub trait Doing {
    /// Replaces [`Failure::doing`].
    #[must_use]
    fn doing(self, what: impl FnOnce() -> String) -> Self;
}

impl<T> Doing for Result<T, Failure> {
    fn doing(self, what: impl FnOnce() -> String) -> Self {
        self.map_err(|failure| Failure { doing: what().into(), ..failure })
    }
}

/// Returns a failure of `function` unless the code is `CKR_OK`.
pub(super) fn check(function: &'static str, code: CK_RV, doing: &'static str) -> Result<(), Failure> {
    if code == CKR_OK { Ok(()) } else { Err(Failure { function, code, doing: doing.into() }) }
}

/// Calls a function of the module's list. Fails unless it returns `CKR_OK`.
macro_rules! call {
    ($module:expr, $function:ident($($argument:expr),*), $doing:expr) => {{
        let function = $crate::failure::entry(stringify!($function), $module.functions().$function)?;
        $crate::failure::check(stringify!($function), function($($argument),*), $doing)
    }};
}

pub(super) use call;

/// Returns an entry of the function list. A list must not contain NULL. If it does, the client
/// fails instead of crashing.
pub(super) fn entry<F>(function: &'static str, pointer: Option<F>) -> Result<F, Failure> {
    pointer.ok_or(Failure {
        function,
        code: cryptoki_sys::CKR_FUNCTION_NOT_SUPPORTED,
        doing: "reading the function list, whose entry is NULL".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_function_code_and_step() {
        let failure = check("C_Login", cryptoki_sys::CKR_PIN_INCORRECT, "logging in").unwrap_err();
        assert_eq!(failure.to_string(), "C_Login: CKR_PIN_INCORRECT (0xA0) while logging in");
    }

    #[test]
    fn doing_replaces_the_step() {
        let result = check("C_Sign", cryptoki_sys::CKR_HOST_MEMORY, "signing");
        let failure = result.doing(|| "signing the CRL".to_owned()).unwrap_err();
        assert!(failure.to_string().ends_with("while signing the CRL"));
    }
}
