//! Writes the objects into a new token, reads them back, and proves the private keys.

use std::io::{self, Read, Write};

use cryptoki_sys::*;
use jeton_migrate::Object;
use zeroize::Zeroizing;

use super::proof::{Prover, PublicKeys};
use super::{Job, Line, Migrated, Outcome, Plan, trust};
use crate::Error;
use crate::client::{
    Access, Attribute, Failure, Module, ObjectHandle, Session, SlotId, User, key_types, names,
};
use crate::token::{self, Choice};
use crate::token_file;

/// The first argument of the process that writes the new token.
pub const WRITER: &str = "migrate-writer";

/// The work of that process: reads a [`Job`] from standard input and writes its [`Outcome`] to
/// standard output, both as JSON. `JETON_DIR` must be an empty directory.
pub fn write_token() -> Result<(), Error> {
    let mut text = Zeroizing::new(String::new());
    io::stdin().read_to_string(&mut text).map_err(Error::io("standard input"))?;
    let job: Job = serde_json::from_str(&text).map_err(|error| Error::Failed(error.to_string()))?;
    let outcome = serde_json::to_string(&run(&job)?).map_err(|error| Error::Failed(error.to_string()))?;
    writeln!(io::stdout(), "{outcome}").map_err(Error::io("standard output"))
}

fn run(job: &Job) -> Result<Outcome, Error> {
    let module = Module::load(&job.library)?;
    module.initialize(None)?;
    let slot = token::initialise(&module, &Choice::Free, &job.label, &job.so_pin, &job.pin)?;
    let serial = module.token_info(slot)?.serial;
    let session = module.open_session(slot, Access::ReadWrite)?;
    session.login(User::User, Some(&job.pin))?;
    let publics = PublicKeys::in_store(&job.objects);
    let prover =
        Prover { session: &session, publics: &publics, is_strict: token_file::is_strict().unwrap_or(false) };
    let mut lines = Vec::with_capacity(job.objects.len());
    let mut trusted = Vec::new();
    for object in &job.objects {
        let result = match migrate(&prover, object) {
            Ok((handle, migrated, trust)) => {
                trusted.extend(trust.then_some((handle, lines.len())));
                Ok(migrated)
            }
            Err(Obstacle::Object(reason)) => Err(reason),
            Err(Obstacle::Token(error)) => return Err(error),
        };
        lines.push(line(object, result));
    }
    session.logout()?;
    session.close()?;
    set_trusted(&module, slot, &job.so_pin, &trusted, &mut lines)?;
    // The file is complete when the module has closed it.
    module.finalize()?;
    Ok(Outcome { serial, lines })
}

enum Obstacle {
    /// The reason is in the object itself.
    Object(String),
    /// The reason applies to every object, for example a full disk.
    Token(Error),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        match failure.code {
            CKR_DEVICE_ERROR
            | CKR_DEVICE_MEMORY
            | CKR_DEVICE_REMOVED
            | CKR_HOST_MEMORY
            | CKR_TOKEN_WRITE_PROTECTED
            | CKR_GENERAL_ERROR
            | CKR_FUNCTION_FAILED => {
                let full = if failure.code == CKR_DEVICE_MEMORY { "; the disk is full" } else { "" };
                Self::Token(Error::Failed(format!("{failure}{full}")))
            }
            _ => Self::Object(failure.to_string()),
        }
    }
}

/// Creates one object, reads it back, and proves it if it is a private key. The `bool` says whether
/// the SO must set `CKA_TRUSTED`.
fn migrate(prover: &Prover<'_>, object: &Object) -> Result<(ObjectHandle, Migrated, bool), Obstacle> {
    let mut plan = Plan::of(object).map_err(Obstacle::Object)?;
    if prover.is_strict {
        plan.keep_one_role();
    }
    let session = prover.session;
    let mut created = session.create_object(&plan.template);
    // Modules compute different check values for a secret that is not the key of a cipher.
    let checked =
        plan.get(CKA_CHECK_VALUE).is_some() && !matches!(plan.number(CKA_KEY_TYPE), Some(CKK_AES | CKK_DES3));
    if checked && created.as_ref().is_err_and(|failure| failure.code == CKR_ATTRIBUTE_VALUE_INVALID) {
        plan.template.retain(|one| one.kind != CKA_CHECK_VALUE);
        created = session.create_object(&plan.template);
        if created.is_ok() {
            plan.differences.push("CKA_CHECK_VALUE: computed by the rule of PKCS#11 3.2".to_owned());
        }
    }
    let handle = created?;
    match examine(prover, object, handle, &mut plan) {
        Err(Obstacle::Object(reason)) => {
            // An object that differs from its template, or does not fit its public key, must not
            // stay in the token.
            session.destroy_object(handle).map_err(|failure| Obstacle::Token(failure.into()))?;
            Err(Obstacle::Object(reason))
        }
        Err(obstacle) => Err(obstacle),
        Ok(migrated) => Ok((handle, migrated, plan.trusted)),
    }
}

/// Reads a new object back, and proves it if it is a private key.
fn examine(
    prover: &Prover<'_>,
    object: &Object,
    handle: ObjectHandle,
    plan: &mut Plan,
) -> Result<Migrated, Obstacle> {
    compare(prover.session, handle, plan)?;
    let mut migrated = Migrated { differences: std::mem::take(&mut plan.differences), ..Migrated::default() };
    if plan.is_private_key() {
        match prover.prove(object, handle) {
            Ok(outcome) => migrated.proof = Some(outcome),
            Err(Error::Module(failure)) => return Err(failure.into()),
            Err(error) => return Err(Obstacle::Object(error.to_string())),
        }
    }
    Ok(migrated)
}

/// Fails if a readable attribute of the new object differs from the template.
fn compare(session: &Session, handle: ObjectHandle, plan: &Plan) -> Result<(), Obstacle> {
    let kinds: Vec<_> = plan.template.iter().map(|one| one.kind).collect();
    let values = session.attributes(handle, &kinds)?;
    for (wanted, value) in plan.template.iter().zip(values) {
        let template = matches!(wanted.kind, CKA_WRAP_TEMPLATE | CKA_UNWRAP_TEMPLATE | CKA_DERIVE_TEMPLATE);
        // The token does not show a sensitive value. The value of a template consists of pointers,
        // which differ between the caller and the token.
        let Some(value) = value.filter(|_| !template) else { continue };
        let integer = is_integer(wanted.kind) || wanted.kind == CKA_VALUE && plan.is_private_key();
        let same = value == wanted.value || integer && strip(&value) == strip(&wanted.value);
        if !same {
            let name = names::attribute(wanted.kind);
            return Err(Obstacle::Object(format!("{name} differs after the object was created")));
        }
    }
    Ok(())
}

/// Returns whether leading zeros of an attribute have no meaning.
const fn is_integer(kind: CK_ATTRIBUTE_TYPE) -> bool {
    // The numbers of an RSA key follow each other, and those of a group.
    matches!(kind, CKA_MODULUS | CKA_PUBLIC_EXPONENT..=CKA_COEFFICIENT | CKA_PRIME..=CKA_BASE)
}

fn strip(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// Sets `CKA_TRUSTED` as the SO. The SO does not see private objects, so they stay untrusted and
/// their lines say so.
fn set_trusted(
    module: &Module,
    slot: SlotId,
    so_pin: &str,
    trusted: &[(ObjectHandle, usize)],
    lines: &mut [Line],
) -> Result<(), Error> {
    if trusted.is_empty() {
        return Ok(());
    }
    let session = module.open_session(slot, Access::ReadWrite)?;
    session.login(User::So, Some(so_pin))?;
    for (handle, line) in trusted {
        if let Err(failure) = session.set_attributes(*handle, &[Attribute::flag(CKA_TRUSTED, true)])
            && let Ok(migrated) = &mut lines[*line].result
        {
            migrated.differences.push(format!(
                "CKA_TRUSTED: false, because the SO of Jeton may not set it here ({})",
                failure.code_name()
            ));
        }
    }
    session.logout()?;
    Ok(session.close()?)
}

fn line(object: &Object, result: Result<Migrated, String>) -> Line {
    let label = String::from_utf8_lossy(object.bytes(CKA_LABEL)).into_owned();
    let id = object.bytes(CKA_ID).iter().map(|byte| format!("{byte:02x}")).collect();
    Line { what: describe(object), label, id, result }
}

/// Returns the class, the key type and the size of an object.
fn describe(object: &Object) -> String {
    let class = match object.number(CKA_CLASS) {
        Some(CKO_DATA) => return "data".to_owned(),
        Some(CKO_CERTIFICATE) => return "certificate".to_owned(),
        Some(CKO_PUBLIC_KEY) => "public key",
        Some(CKO_PRIVATE_KEY) => "private key",
        Some(CKO_SECRET_KEY) => "secret key",
        Some(CKO_DOMAIN_PARAMETERS) => "domain parameters",
        Some(CKO_TRUST | trust::CLASS) => return "trust object".to_owned(),
        Some(other) => return format!("object of class 0x{other:X}"),
        None => return format!("incomplete object ({})", object.name),
    };
    let kind = match object.number(CKA_KEY_TYPE) {
        Some(CKK_RSA) => format!("RSA {}", 8 * strip(object.bytes(CKA_MODULUS)).len()),
        Some(CKK_DSA) => format!("DSA {}", 8 * strip(object.bytes(CKA_PRIME)).len()),
        Some(CKK_DH) => "DH".to_owned(),
        Some(CKK_EC) => {
            let row = key_types::of_oid(object.bytes(CKA_EC_PARAMS));
            format!("EC {}", row.map_or("curve", |row| row.name))
        }
        Some(CKK_EC_EDWARDS) => "Edwards curve".to_owned(),
        Some(CKK_EC_MONTGOMERY) => "Montgomery curve".to_owned(),
        Some(CKK_AES) => format!("AES {}", 8 * object.bytes(CKA_VALUE).len()),
        Some(CKK_DES3) => "Triple DES".to_owned(),
        Some(CKK_GENERIC_SECRET) => format!("generic {}", 8 * object.bytes(CKA_VALUE).len()),
        Some(CKK_ML_DSA) => "ML-DSA".to_owned(),
        Some(CKK_ML_KEM) => "ML-KEM".to_owned(),
        Some(other) => format!("type 0x{other:X}"),
        None => "without a type".to_owned(),
    };
    format!("{class}, {kind}")
}
