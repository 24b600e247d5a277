//! The cases. Most files have the cases of one chapter of the specification. A case is a function,
//! a situation and the allowed return codes.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism, ObjectHandle, Structure};

use self::calls::Calls;
use crate::fixture::{Answer, Fixture, Key, NO_OBJECT, code_name};
use crate::functions;
use crate::record::{Section, Verdict};
use crate::task::{Task, Work};

mod arguments;
mod calls;
mod ciphers;
mod clauses;
mod digests;
mod encryption;
mod general;
mod kem;
mod keys;
mod messages;
mod objects;
mod programs;
mod schemes;
mod searches;
mod sessions;
mod signing;
mod tokens;
mod verifying;
mod wrapping;

pub use ciphers::works as cipher_works;
pub use kem::{decapsulate, encapsulate};
pub use schemes::hash_sign;

pub struct Case {
    pub function: &'static str,
    pub name: &'static str,
    pub expected: &'static [CK_RV],
    /// The codes of a module that lacks the function.
    pub absent: &'static [CK_RV],
    pub run: Run,
}

#[derive(Clone, Copy)]
pub enum Run {
    /// Makes the calls. The failure is that of the function under test, or of a call before it.
    Calls(fn(&Fixture<'_>) -> Answer),
    /// Creates an object with this template.
    Creates(fn() -> Vec<Attribute>),
    /// Generates an AES key with this template.
    Generates(fn() -> Vec<Attribute>),
    Derives(fn() -> keys::Derivation),
    /// Sets this attribute of a key.
    Sets(Handle, fn() -> Attribute),
    /// Generates a key pair with this mechanism and public template.
    GeneratesPair(&'static Mechanism, fn() -> Vec<Attribute>),
    /// Calls the function, `C_*Init`, with the mechanism of this type, and this key.
    Starts(CK_MECHANISM_TYPE, fn(CK_MECHANISM_TYPE) -> Mechanism, Handle),
    /// Calls the function, `C_*Init`, twice.
    Restarts(CK_MECHANISM_TYPE, Handle),
}

impl Run {
    fn on(self, function: &'static str, fixture: &Fixture<'_>) -> Answer {
        match self {
            Self::Calls(calls) => calls(fixture),
            Self::Creates(template) => fixture.create_object(&template()).map(drop),
            Self::Generates(template) => keys::generated(fixture, &template()),
            Self::Derives(derivation) => keys::derived(fixture, derivation()),
            Self::Sets(key, attribute) => fixture.set_attributes(key.of(fixture)?, &[attribute()]),
            Self::GeneratesPair(mechanism, public) => {
                fixture.generate_key_pair(mechanism, &public(), &[]).map(drop)
            }
            Self::Starts(kind, parameter, key) => {
                Calls::new(fixture)?.init(function, &parameter(kind), key.of(fixture)?)
            }
            Self::Restarts(kind, key) => {
                let (calls, mechanism, key) = (Calls::new(fixture)?, Mechanism::new(kind), key.of(fixture)?);
                calls.init(function, &mechanism, key)?;
                calls.init(function, &mechanism, key)
            }
        }
    }
}

/// The key of a call.
#[derive(Clone, Copy)]
pub enum Handle {
    /// A secret key, or the private key of a pair.
    Private(Key),
    Public(Key),
    Invalid,
}

impl Handle {
    fn of(self, fixture: &Fixture<'_>) -> Answer<ObjectHandle> {
        Ok(match self {
            Self::Private(key) => fixture.key(key)?,
            Self::Public(key) => fixture.pair(key)?.public,
            Self::Invalid => NO_OBJECT,
        })
    }
}

const fn case(
    function: &'static str,
    name: &'static str,
    expected: &'static [CK_RV],
    run: fn(&Fixture<'_>) -> Answer,
) -> Case {
    Case { function, name, expected, absent: &[], run: Run::Calls(run) }
}

const fn creates(name: &'static str, expected: &'static [CK_RV], template: fn() -> Vec<Attribute>) -> Case {
    Case { function: "C_CreateObject", name, expected, absent: &[], run: Run::Creates(template) }
}

/// Returns a case of a `C_*Init` function and a mechanism without a parameter.
const fn starts(
    function: &'static str,
    name: &'static str,
    expected: &'static [CK_RV],
    mechanism: CK_MECHANISM_TYPE,
    key: Handle,
) -> Case {
    Case { function, name, expected, absent: &[], run: Run::Starts(mechanism, Mechanism::new, key) }
}

/// Returns a case of a `C_*Init` function that refuses the parameter of the mechanism.
const fn refuses(
    function: &'static str,
    name: &'static str,
    mechanism: CK_MECHANISM_TYPE,
    key: Handle,
    parameter: fn(CK_MECHANISM_TYPE) -> Mechanism,
) -> Case {
    Case { function, name, expected: BAD_PARAMETER, absent: &[], run: Run::Starts(mechanism, parameter, key) }
}

/// Returns a case of a function that a module may lack.
const fn optional(
    function: &'static str,
    name: &'static str,
    expected: &'static [CK_RV],
    run: fn(&Fixture<'_>) -> Answer,
) -> Case {
    Case { absent: &[CKR_FUNCTION_NOT_SUPPORTED], ..case(function, name, expected, run) }
}

const CHAPTERS: &[&[Case]] = &[
    general::CASES,
    tokens::CASES,
    sessions::CASES,
    objects::CASES,
    searches::CASES,
    encryption::CASES,
    digests::CASES,
    signing::CASES,
    verifying::CASES,
    keys::CASES,
    wrapping::CASES,
    kem::CASES,
    messages::CASES,
    programs::CASES,
    clauses::CASES,
    tokens::LAST,
];

/// Returns every case. The cases that apply to many functions come first.
pub fn tasks() -> Vec<Task> {
    let rows = CHAPTERS.iter().copied().flatten();
    let rows = rows.map(|case| {
        let expected = [case.expected, case.absent].concat();
        row(case.function, case.name.to_owned(), expected, |fixture| case.run.on(case.function, fixture))
    });
    let each = [
        ciphers::tasks(),
        signing::tasks(),
        schemes::tasks(),
        messages::tasks(),
        wrapping::tasks(),
        kem::tasks(),
    ];
    arguments::tasks().into_iter().chain(rows).chain(each.into_iter().flatten()).collect()
}

fn row(
    function: &str,
    name: String,
    expected: Vec<CK_RV>,
    run: impl Fn(&Fixture<'_>) -> Answer + 'static,
) -> Task {
    let work = move |fixture: &Fixture<'_>| judge_at(fixture, &expected, run(fixture));
    task(function, name, Work::LoggedIn(Box::new(work)))
}

fn task(function: &str, name: String, work: Work) -> Task {
    Task { section: Section::Cases, subject: function.to_owned(), name, work }
}

/// Returns a verdict on the return code. `CKR_FUNCTION_NOT_SUPPORTED` is wrong if the function
/// takes a session and the module implements it.
fn judge_at(fixture: &Fixture<'_>, expected: &[CK_RV], outcome: Answer) -> Verdict {
    let refused = outcome.as_ref().err().filter(|failure| failure.code == CKR_FUNCTION_NOT_SUPPORTED);
    if refused.is_some_and(|failure| functions::is_there(fixture, failure.function)) {
        let expected: Vec<_> =
            expected.iter().copied().filter(|code| *code != CKR_FUNCTION_NOT_SUPPORTED).collect();
        return judge(&expected, outcome);
    }
    judge(expected, outcome)
}

fn judge(expected: &[CK_RV], outcome: Answer) -> Verdict {
    let got = outcome.err().map_or(CKR_OK, |failure| failure.code);
    let fits = expected.contains(&got);
    Verdict::Case {
        expected: expected.iter().map(|code| code_name(*code)).collect(),
        got: code_name(got),
        fits,
    }
}

static ECDSA: Mechanism = Mechanism::new(CKM_ECDSA);
static SHA256: Mechanism = Mechanism::new(CKM_SHA256);
static HMAC: Mechanism = Mechanism::new(CKM_SHA256_HMAC);
/// A mechanism that no module has.
static NO_MECHANISM: Mechanism = Mechanism::new(UNKNOWN);
const UNKNOWN: CK_MECHANISM_TYPE = 0x7fff_fff0;
/// The code for a mechanism that does not exist, or that the function does not have.
const BAD_MECHANISM: &[CK_RV] = &[CKR_MECHANISM_INVALID];
const BAD_PARAMETER: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID];
const BAD_HANDLE: &[CK_RV] = &[CKR_KEY_HANDLE_INVALID];
const READ_ONLY: &[CK_RV] = &[CKR_SESSION_READ_ONLY];
const BAD_TYPE: &[CK_RV] = &[CKR_KEY_TYPE_INCONSISTENT];
/// The code for a key without the usage.
const NOT_PERMITTED: &[CK_RV] = &[CKR_KEY_FUNCTION_NOT_PERMITTED];
/// The code for a template without an attribute that it needs.
const INCOMPLETE: &[CK_RV] = &[CKR_TEMPLATE_INCOMPLETE];
/// The codes for a key of another class.
const WRONG_KEY: &[CK_RV] =
    &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID];
/// The codes for a parameter that a token may refuse, or a function of it that a token may lack.
const MAY_REFUSE: &[CK_RV] = &[CKR_OK, CKR_MECHANISM_PARAM_INVALID];
/// The codes for a mechanism that a module may lack, or may not use in this way.
const OR_ABSENT: &[CK_RV] = &[CKR_OK, CKR_MECHANISM_INVALID];
// The codes of a function that a module may lack.
const NO_HANDLE: &[CK_RV] = &[CKR_KEY_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED];
const INVALID: &[CK_RV] = &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED];
/// Data with the length of a SHA-256 digest.
const DIGEST: [u8; 32] = [7; 32];
/// Data with the length of two AES blocks.
const BLOCKS: [u8; 32] = [5; 32];

fn cbc() -> Mechanism {
    Mechanism::with_bytes(CKM_AES_CBC, &[1; 16])
}

fn cbc_pad() -> Mechanism {
    Mechanism::with_bytes(CKM_AES_CBC_PAD, &[1; 16])
}

/// Returns AES-GCM with a nonce of 12 bytes and a tag of that number of bits.
fn gcm(tag_bits: CK_ULONG) -> Mechanism {
    let parameter = Structure::new().bytes(&[2; 12]).number(96).bytes(b"more").number(tag_bits);
    parameter.mechanism(CKM_AES_GCM)
}
