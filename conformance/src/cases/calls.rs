//! Helpers of the cases that run for many mechanisms: calls of functions by their names, with any
//! buffer, and the codes of refused calls.

use cryptoki_sys::{
    CK_FLAGS, CK_MECHANISM_TYPE, CK_RV, CK_ULONG, CKR_BUFFER_TOO_SMALL, CKR_OK, CKR_OPERATION_NOT_INITIALIZED,
};
use jeton_client::{Arg, Mechanism, ObjectHandle, Session, names};

use super::{judge_at, task};
use crate::fixture::{Answer, Fixture, ensure};
use crate::record::Verdict;
use crate::task::{Task, Work};

pub const NOT_BEGUN: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED];
pub const TOO_SMALL: &[CK_RV] = &[CKR_BUFFER_TOO_SMALL];

/// Returns a case of a mechanism. It is absent if the module does not list the mechanism with these
/// flags. `codes` are allowed codes other than `CKR_OK`.
pub fn listed(
    function: &'static str,
    situation: &str,
    (kind, flags): (CK_MECHANISM_TYPE, CK_FLAGS),
    codes: &'static [CK_RV],
    run: impl Fn(&Fixture<'_>) -> Answer + 'static,
) -> Task {
    let name = situation.replace("{}", &names::mechanism(kind));
    let work = move |fixture: &Fixture<'_>| {
        let info = fixture.module.mechanism_info(fixture.slot, kind);
        if !fixture.lists(kind) || info.is_ok_and(|info| info.flags & flags != flags) {
            return Verdict::Absent("not listed".to_owned());
        }
        judge_at(fixture, &[&[CKR_OK], codes].concat(), run(fixture))
    };
    task(function, name, Work::LoggedIn(Box::new(work)))
}

pub fn refused<T>(function: &'static str, outcome: Answer<T>, codes: &[CK_RV]) -> Answer {
    match outcome {
        Err(failure) if !codes.contains(&failure.code) => Err(failure),
        outcome => ensure(function, outcome.is_err()),
    }
}

/// Returns a message whose number is less than any modulus of its length.
pub fn message(length: usize, start: u8) -> Vec<u8> {
    (0..length).map(|at| if at == 0 { 1 } else { (at as u8).wrapping_mul(3).wrapping_add(start) }).collect()
}

/// A session whose functions are called by their names.
pub struct Calls<'a> {
    pub fixture: &'a Fixture<'a>,
    pub session: Session,
}

impl<'a> Calls<'a> {
    pub fn new(fixture: &'a Fixture<'a>) -> Answer<Self> {
        Ok(Self { fixture, session: fixture.fresh()? })
    }

    pub fn call(&self, function: &'static str, arguments: Vec<Arg<'_>>) -> Answer {
        self.fixture.call(function, &self.session, arguments)
    }

    pub fn init(&self, function: &'static str, mechanism: &Mechanism, key: ObjectHandle) -> Answer {
        self.call(function, vec![Arg::Mechanism(mechanism), Arg::Number(key.0)])
    }

    /// PKCS#11 3.0, C_SignInit and similar functions: a NULL mechanism ends the operation.
    pub fn cancel(&self, function: &'static str) -> Answer {
        self.call(function, vec![Arg::Null, Arg::Number(0)])
    }

    /// Calls a function that writes output after these arguments. Returns the length that it set,
    /// and its result.
    pub fn fill(&self, function: &'static str, arguments: Vec<Arg<'_>>, out: &mut [u8]) -> (usize, Answer) {
        let (mut all, mut length) = (arguments, out.len() as CK_ULONG);
        all.push(Arg::Buffer(out, &mut length));
        let outcome = self.call(function, all);
        (length as usize, outcome)
    }

    pub fn length(&self, function: &'static str, arguments: Vec<Arg<'_>>) -> Answer<usize> {
        let (mut all, mut length) = (arguments, 0);
        all.push(Arg::NoBuffer(&mut length));
        self.call(function, all)?;
        Ok(length as usize)
    }

    /// Calls a function with a buffer of the length that it asks for. `data` is its input.
    pub fn output(&self, function: &'static str, data: Option<&[u8]>) -> Answer<Vec<u8>> {
        let arguments = || data.into_iter().map(Arg::Bytes).collect();
        let mut out = vec![0; self.length(function, arguments())?];
        let (length, outcome) = self.fill(function, arguments(), &mut out);
        outcome?;
        out.truncate(length);
        Ok(out)
    }
}
