//! "General purpose functions" and interfaces.

use cryptoki_sys::{
    CK_RV, CKR_ARGUMENTS_BAD, CKR_BUFFER_TOO_SMALL, CKR_CRYPTOKI_ALREADY_INITIALIZED, CKR_FUNCTION_FAILED,
    CKR_FUNCTION_NOT_PARALLEL, CKR_OK,
};
use jeton_client::{Arg, Memory, Structure};

use super::{Case, case, optional};
use crate::fixture::ensure;

pub fn padded(bytes: &[u8]) -> Memory {
    let mut whole = Arg::zeroed().bytes();
    whole[..bytes.len()].copy_from_slice(bytes);
    Memory::of(&whole)
}

const NO_INTERFACE: &[CK_RV] = &[CKR_ARGUMENTS_BAD, CKR_FUNCTION_FAILED];
const BAD_MUTEXES: &[CK_RV] = &[CKR_ARGUMENTS_BAD, CKR_CRYPTOKI_ALREADY_INITIALIZED];
const NOT_PARALLEL: &[CK_RV] = &[CKR_FUNCTION_NOT_PARALLEL];

pub const CASES: &[Case] = &[
    case("C_Initialize", "twice", &[CKR_CRYPTOKI_ALREADY_INITIALIZED], |fixture| {
        fixture.module.initialize(None)
    }),
    case("C_Initialize", "twice, with NULL", &[CKR_CRYPTOKI_ALREADY_INITIALIZED], |fixture| {
        fixture.module.call("C_Initialize", &mut [Arg::Null])
    }),
    case("C_Finalize", "with a reserved argument", &[CKR_ARGUMENTS_BAD], |fixture| {
        fixture.module.call("C_Finalize", &mut [Arg::Output(&Arg::zeroed())])
    }),
    case("C_GetInfo", "returns the interface version and a description", &[CKR_OK], |fixture| {
        let info = fixture.module.info()?;
        ensure(
            "C_GetInfo",
            info.cryptoki.0 >= 2 && !info.description.is_empty() && !info.manufacturer.is_empty(),
        )
    }),
    case("C_GetFunctionList", "returns a list of version 2.40 or lower", &[CKR_OK], |fixture| {
        ensure("C_GetFunctionList", fixture.module.functions().version.major == 2)
    }),
    optional("C_GetInterfaceList", "returns the number for a NULL list", &[CKR_OK], |fixture| {
        let mut count = 0;
        fixture.module.call("C_GetInterfaceList", &mut [Arg::NoBuffer(&mut count)])?;
        ensure("C_GetInterfaceList", count > 0)
    }),
    optional("C_GetInterfaceList", "into a short list", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        fixture.module.call("C_GetInterfaceList", &mut [Arg::Buffer(&mut [], &mut 0)])
    }),
    optional("C_GetInterface", "without a name returns the default", &[CKR_OK], |fixture| {
        let output = Arg::zeroed();
        fixture
            .module
            .call("C_GetInterface", &mut [Arg::Null, Arg::Null, Arg::Output(&output), Arg::Number(0)])?;
        ensure("C_GetInterface", output.number(0) != 0)
    }),
    optional("C_GetInterface", "of an unknown name", NO_INTERFACE, |fixture| {
        let (name, output) = (padded(b"Vendor unknown"), Arg::zeroed());
        fixture.module.call(
            "C_GetInterface",
            &mut [Arg::Output(&name), Arg::Null, Arg::Output(&output), Arg::Number(0)],
        )
    }),
    optional("C_GetInterface", "of an unknown version", NO_INTERFACE, |fixture| {
        let (version, output) = (padded(&[99, 0]), Arg::zeroed());
        fixture.module.call(
            "C_GetInterface",
            &mut [Arg::Null, Arg::Output(&version), Arg::Output(&output), Arg::Number(0)],
        )
    }),
    case("C_Initialize", "with some of the mutex functions", BAD_MUTEXES, |fixture| {
        let arguments = Structure::new().pointer(&Arg::zeroed()).null().null().null().number(0).null();
        let mechanism = arguments.mechanism(0);
        fixture.module.call("C_Initialize", &mut [Arg::Output(&padded(&mechanism.parameter))])
    }),
    case("C_GetFunctionStatus", "returns CKR_FUNCTION_NOT_PARALLEL", NOT_PARALLEL, |fixture| {
        fixture.call("C_GetFunctionStatus", &fixture.session, vec![])
    }),
    case("C_CancelFunction", "returns CKR_FUNCTION_NOT_PARALLEL", NOT_PARALLEL, |fixture| {
        fixture.call("C_CancelFunction", &fixture.session, vec![])
    }),
];
