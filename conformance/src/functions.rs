//! Calls the functions of the standard with harmless arguments to see whether the module implements
//! them.

use cryptoki_sys::{CK_ULONG, CKF_DONT_BLOCK, CKM_SHA256, CKR_FUNCTION_NOT_SUPPORTED, CKR_OK};
use jeton_client::{Arg, FUNCTIONS, Function, Kind, Mechanism, Module};

use crate::fixture::{Answer, Fixture, NO_SESSION, code_name};
use crate::record::{Section, Verdict};
use crate::task::{Task, Work};

/// Functions that are not called here. `C_Finalize` would end the run, and `C_Initialize` would
/// fail because the module is already initialised.
const APART: &[&str] = &["C_Initialize", "C_Finalize"];
/// Functions that work before the library is initialised (PKCS#11 3.2, "General purpose
/// functions").
pub const EARLY: &[&str] = &["C_Initialize", "C_GetFunctionList", "C_GetInterfaceList", "C_GetInterface"];
/// Functions whose first argument is not a session.
const SESSIONLESS: &str = "C_Initialize C_Finalize C_GetInfo C_GetFunctionList C_GetSlotList C_GetSlotInfo \
    C_GetTokenInfo C_GetMechanismList C_GetMechanismInfo C_InitToken C_OpenSession C_CloseAllSessions \
    C_WaitForSlotEvent C_GetInterfaceList C_GetInterface";

pub fn tasks() -> Vec<Task> {
    FUNCTIONS.iter().map(task).collect()
}

pub fn of_sessions() -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().filter(|function| !is_sessionless(function))
}

fn is_sessionless(function: &Function) -> bool {
    SESSIONLESS.split_whitespace().any(|name| name == function.name)
}

fn task(function: &'static Function) -> Task {
    let work = move |fixture: &Fixture<'_>| {
        // Every run calls these two functions, at its start and at its end.
        if APART.contains(&function.name) {
            return Verdict::Answer("CKR_OK".to_owned());
        }
        let session = match fixture.fresh() {
            Ok(session) => session,
            Err(failure) => return Verdict::Fails(failure.to_string()),
        };
        let first = if is_sessionless(function) {
            // C_InitToken and C_CloseAllSessions must have no effect, and C_WaitForSlotEvent must
            // not wait.
            match function.name {
                "C_WaitForSlotEvent" => CKF_DONT_BLOCK,
                "C_InitToken" | "C_CloseAllSessions" => NO_SESSION,
                _ => fixture.slot.0,
            }
        } else {
            session.handle()
        };
        let code = harmless(fixture.module, function, first).err().map_or(CKR_OK, |failure| failure.code);
        // The handle must not be closed again, because the module may have reused it.
        if function.name == "C_CloseSession" {
            std::mem::forget(session);
        }
        Verdict::Answer(code_name(code))
    };
    Task {
        section: Section::Functions,
        subject: "C interface".to_owned(),
        name: function.name.to_owned(),
        work: Work::LoggedIn(Box::new(work)),
    }
}

/// Returns whether the module implements a function that takes a session.
pub fn is_there(fixture: &Fixture<'_>, name: &str) -> bool {
    let Some(function) = of_sessions().find(|function| function.name == name) else { return false };
    let Ok(session) = fixture.fresh() else { return false };
    let outcome = harmless(fixture.module, function, session.handle());
    !outcome.is_err_and(|failure| failure.code == CKR_FUNCTION_NOT_SUPPORTED)
}

/// Calls a function with `first` as its first number and harmless values for the rest.
pub fn harmless(module: &Module, function: &'static Function, first: CK_ULONG) -> Answer {
    let output = Arg::zeroed();
    let digest = Mechanism::new(CKM_SHA256);
    let (mut first, mut lengths, mut buffers) = (Some(first), [0; 4], [const { [0_u8; 256] }; 4]);
    let (mut lengths, mut buffers) = (lengths.iter_mut(), buffers.iter_mut());
    let mut arguments: Vec<Arg<'_>> = Vec::new();
    for kind in function.arguments() {
        arguments.push(match kind {
            Kind::Number => Arg::Number(first.take().unwrap_or(0)),
            Kind::Bytes => Arg::Bytes(b"harmless"),
            Kind::Fill | Kind::Handles => Arg::NullBytes(0),
            Kind::Template => Arg::Template(&[]),
            Kind::Mechanism => Arg::Mechanism(&digest),
            // PKCS#11 3.2, C_Finalize: "pReserved … should be NULL_PTR".
            Kind::Output if function.name == "C_Finalize" => Arg::Null,
            Kind::Output => Arg::Output(&output),
            Kind::Buffer | Kind::List | Kind::Length | Kind::Callback => {
                // Four lengths and four buffers are enough for every function.
                let (Some(length), Some(buffer)) = (lengths.next(), buffers.next()) else { continue };
                *length = 8;
                Arg::Buffer(buffer, length)
            }
        });
    }
    module.call(function.name, &mut arguments)
}
