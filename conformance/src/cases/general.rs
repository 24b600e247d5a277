//! "General purpose functions" and interfaces.

use cryptoki_sys::*;
use jeton_driver::client::{Arg, Memory, Structure};

use super::{Case, case};
use crate::place::ensure;

/// Returns memory that begins with these bytes.
fn place_of(bytes: &[u8]) -> Memory {
    let mut whole = Arg::place().bytes();
    whole[..bytes.len()].copy_from_slice(bytes);
    Memory::of(&whole)
}

pub const CASES: &[Case] = &[
    case("C_Initialize", "twice", &[CKR_CRYPTOKI_ALREADY_INITIALIZED], |p| p.module.initialize(None)),
    case("C_Initialize", "twice, with NULL", &[CKR_CRYPTOKI_ALREADY_INITIALIZED], |p| {
        p.module.call("C_Initialize", &mut [Arg::Null])
    }),
    case("C_Finalize", "with a reserved argument", &[CKR_ARGUMENTS_BAD], |p| {
        p.module.call("C_Finalize", &mut [Arg::Place(&Arg::place())])
    }),
    case("C_GetInfo", "says a version of the interface and a description", &[CKR_OK], |p| {
        let info = p.module.info()?;
        ensure(
            "C_GetInfo",
            info.cryptoki.0 >= 2 && !info.description.is_empty() && !info.manufacturer.is_empty(),
        )
    }),
    case("C_GetFunctionList", "gives a list of 2.40 at most", &[CKR_OK], |p| {
        let version = p.module.functions().version;
        ensure("C_GetFunctionList", version.major == 2)
    }),
    case("C_GetInterfaceList", "counts when asked with NULL", &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED], |p| {
        let mut count = 0;
        p.module.call("C_GetInterfaceList", &mut [Arg::NoBuffer(&mut count)])?;
        ensure("C_GetInterfaceList", count > 0)
    }),
    case(
        "C_GetInterfaceList",
        "into a short list",
        &[CKR_BUFFER_TOO_SMALL, CKR_FUNCTION_NOT_SUPPORTED],
        |p| p.module.call("C_GetInterfaceList", &mut [Arg::Buffer(&mut [], &mut 0)]),
    ),
    case("C_GetInterface", "without a name gives the default", &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED], |p| {
        let place = Arg::place();
        p.module.call("C_GetInterface", &mut [Arg::Null, Arg::Null, Arg::Place(&place), Arg::Number(0)])?;
        ensure("C_GetInterface", place.number(0) != 0)
    }),
    case(
        "C_GetInterface",
        "of a name that is not there",
        &[CKR_ARGUMENTS_BAD, CKR_FUNCTION_FAILED, CKR_FUNCTION_NOT_SUPPORTED],
        |p| {
            let (name, place) = (place_of(b"Vendor nobody"), Arg::place());
            p.module.call(
                "C_GetInterface",
                &mut [Arg::Place(&name), Arg::Null, Arg::Place(&place), Arg::Number(0)],
            )
        },
    ),
    case(
        "C_GetInterface",
        "of a version that is not there",
        &[CKR_ARGUMENTS_BAD, CKR_FUNCTION_FAILED, CKR_FUNCTION_NOT_SUPPORTED],
        |p| {
            let (version, place) = (place_of(&[99, 0]), Arg::place());
            p.module.call(
                "C_GetInterface",
                &mut [Arg::Null, Arg::Place(&version), Arg::Place(&place), Arg::Number(0)],
            )
        },
    ),
    case(
        "C_Initialize",
        "with some of the mutex functions",
        &[CKR_ARGUMENTS_BAD, CKR_CRYPTOKI_ALREADY_INITIALIZED],
        |p| {
            let arguments = Structure::new().pointer(&Arg::place()).null().null().null().number(0).null();
            let mechanism = arguments.mechanism(0);
            p.module.call("C_Initialize", &mut [Arg::Place(&place_of(&mechanism.parameter))])
        },
    ),
    case("C_GetFunctionStatus", "is of another age", &[CKR_FUNCTION_NOT_PARALLEL], |p| {
        p.call("C_GetFunctionStatus", &p.session, vec![])
    }),
    case("C_CancelFunction", "is of another age", &[CKR_FUNCTION_NOT_PARALLEL], |p| {
        p.call("C_CancelFunction", &p.session, vec![])
    }),
];
