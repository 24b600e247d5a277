//! The errors of the tool and of the modules that it calls.

use std::io::ErrorKind;
use std::path::PathBuf;

use cryptoki_sys::*;
#[cfg(feature = "ca")]
use jeton_ca::{Cause as CaCause, Error as Ca};
use jeton_formats::Error as File;
use jeton_migrate::Error as Store;

use crate::client::{Failure, LoadError};

/// The cause of a failure. The exit status of the tool is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// None of the other causes.
    Other = 1,
    Usage = 2,
    NotFound = 3,
    /// There is one already, and the command line does not allow another one.
    Exists = 4,
    WrongPin = 5,
    Locked = 6,
    /// A policy or an attribute forbids it.
    Refused = 7,
    /// A file or a record is damaged or was altered.
    Damaged = 8,
    NotPermitted = 9,
    /// The module or the store does not work.
    Device = 10,
}

pub struct Status {
    pub number: u8,
    /// The name, which `--json` has.
    pub name: &'static str,
    pub meaning: &'static str,
}

/// The exit statuses. Each [`Cause`] has the row with its number.
pub const STATUSES: [Status; 12] = [
    status(0, "done", "the work is done"),
    status(1, "failed", "another failure, an invalid signature, or a finding of doctor"),
    status(2, "usage", "the command line is wrong"),
    status(3, "not-found", "there is no such token, object, certificate or file"),
    status(4, "exists", "there is one already; see --if-absent, --allow-duplicate and --force"),
    status(5, "wrong-pin", "a PIN, password or passphrase is wrong"),
    status(6, "locked", "the PIN is locked after too many wrong ones"),
    status(7, "refused", "a policy, a profile or an attribute of the key forbids it"),
    status(8, "damaged", "a file or a record is damaged, or was altered"),
    status(9, "not-permitted", "the operating system does not permit it, or the token is read-only"),
    status(10, "device", "the module cannot be loaded, or its store does not work"),
    status(130, "interrupted", "the user interrupted the command"),
];

const fn status(number: u8, name: &'static str, meaning: &'static str) -> Status {
    Status { number, name, meaning }
}

impl Cause {
    /// Returns the name in [`STATUSES`].
    pub fn name(self) -> &'static str {
        STATUSES.iter().find(|row| row.number == self as u8).map_or("failed", |row| row.name)
    }

    /// Returns an error with this cause and this message.
    pub fn error(self, text: impl Into<String>) -> Error {
        Error::Caused(self, text.into())
    }

    /// Returns the cause of a return code of a module.
    fn of_code(code: CK_RV) -> Self {
        match code {
            CKR_PIN_INCORRECT => Self::WrongPin,
            CKR_PIN_LOCKED => Self::Locked,
            CKR_PIN_LEN_RANGE
            | CKR_PIN_INVALID
            | CKR_PIN_TOO_WEAK
            | CKR_ACTION_PROHIBITED
            | CKR_ATTRIBUTE_READ_ONLY
            | CKR_ATTRIBUTE_SENSITIVE
            | CKR_ATTRIBUTE_VALUE_INVALID
            | CKR_FUNCTION_NOT_SUPPORTED
            | CKR_KEY_EXHAUSTED
            | CKR_KEY_FUNCTION_NOT_PERMITTED
            | CKR_KEY_NOT_WRAPPABLE
            | CKR_KEY_UNEXTRACTABLE
            | CKR_KEY_SIZE_RANGE
            | CKR_KEY_TYPE_INCONSISTENT
            | CKR_MECHANISM_INVALID
            | CKR_CURVE_NOT_SUPPORTED
            | CKR_TEMPLATE_INCONSISTENT => Self::Refused,
            CKR_ENCRYPTED_DATA_INVALID
            | CKR_ENCRYPTED_DATA_LEN_RANGE
            | CKR_AEAD_DECRYPT_FAILED
            | CKR_WRAPPED_KEY_INVALID
            | CKR_WRAPPED_KEY_LEN_RANGE => Self::Damaged,
            CKR_TOKEN_WRITE_PROTECTED => Self::NotPermitted,
            CKR_DEVICE_ERROR
            | CKR_DEVICE_MEMORY
            | CKR_DEVICE_REMOVED
            | CKR_GENERAL_ERROR
            | CKR_HOST_MEMORY
            | CKR_TOKEN_NOT_PRESENT
            | CKR_TOKEN_NOT_RECOGNIZED => Self::Device,
            _ => Self::Other,
        }
    }

    /// Returns the cause of an error in a file of keys or certificates.
    fn of_file(error: &File) -> Self {
        match error {
            File::Refused(_) | File::Encryption(_) => Self::Refused,
            File::PasswordMissing | File::PasswordWrong => Self::WrongPin,
            File::Damaged(_) => Self::Damaged,
            File::Unknown => Self::Other,
        }
    }

    /// Returns the cause of an error of the CA.
    #[cfg(feature = "ca")]
    fn of_ca(error: &Ca) -> Self {
        match error {
            Ca::Module(failure) => Self::of_code(failure.code),
            Ca::Usage(_) => Self::Usage,
            Ca::Refused(_) | Ca::Caused(CaCause::Refused, _) => Self::Refused,
            Ca::Caused(CaCause::NotFound, _) => Self::NotFound,
            Ca::Caused(CaCause::Exists, _) => Self::Exists,
            Ca::Caused(CaCause::Damaged, _) => Self::Damaged,
            Ca::Caused(CaCause::NotPermitted, _) => Self::NotPermitted,
            Ca::Io { source, .. } => Self::of_io(source),
            Ca::File { source, .. } | Ca::Format(source) => Self::of_file(source),
            Ca::List { .. } => Self::Device,
            Ca::Der(_) | Ca::Failed(_) | Ca::Caused(CaCause::Other, _) => Self::Other,
        }
    }

    /// Returns the cause of an error of the operating system.
    fn of_io(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::AlreadyExists => Self::Exists,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::NotPermitted,
            ErrorKind::StorageFull => Self::Device,
            _ => Self::Other,
        }
    }
}

/// An error of the tool. Its text is the message to the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Module(#[from] Failure),
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A module is missing, or a token could not be found or prepared.
    #[error(transparent)]
    Peer(#[from] jeton_peers::Error),
    #[error(transparent)]
    Pki(#[from] jeton_pki::Error),
    #[cfg(feature = "ca")]
    #[error(transparent)]
    Ca(#[from] Ca),
    #[error("DER: {0}")]
    Der(#[from] der::Error),
    #[error("cannot {what}: {reason}")]
    TokenFile { what: &'static str, cause: Cause, reason: String },
    #[error(transparent)]
    OldStore(#[from] jeton_migrate::Error),
    #[error("{}: {source}", path.display())]
    KeyFile { path: PathBuf, source: jeton_formats::Error },
    /// A certificate or a key in a token or a file.
    #[error(transparent)]
    Format(#[from] jeton_formats::Error),
    #[error("{1}")]
    Caused(Cause, String),
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Usage(String),
}

/// The end of the message about a token that the module does not recognise.
pub const DAMAGED: &str = ": the token is not initialised, or damaged; `jeton doctor` says more, for the agent as its user: \
    runuser -u jeton -- env JETON_DIR=/var/lib/jeton/agent jeton doctor";

impl Error {
    /// Returns a function for `map_err` that adds this path.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let error = jeton_peers::Error::io(path);
        move |source| error(source).into()
    }

    /// Returns what the user can do about a refusal of a module, as the end of the message.
    pub fn hint(&self) -> &'static str {
        let failure = match self {
            Self::Module(failure)
            | Self::Peer(jeton_peers::Error::Module(failure))
            | Self::Pki(jeton_pki::Error::Module(failure)) => failure,
            #[cfg(feature = "ca")]
            Self::Ca(Ca::Module(failure)) => failure,
            _ => return "",
        };
        match failure.code {
            CKR_FUNCTION_NOT_SUPPORTED => "; the module lacks it, or a rule of the agent refuses it",
            CKR_ATTRIBUTE_VALUE_INVALID | CKR_MECHANISM_INVALID | CKR_TEMPLATE_INCONSISTENT => {
                "; `jeton mechanisms` lists what is allowed, and the log at level warn what a policy refuses"
            }
            CKR_TOKEN_NOT_RECOGNIZED => DAMAGED,
            CKR_DEVICE_MEMORY => ": the disk is full; make room, and the next write works",
            CKR_TOKEN_WRITE_PROTECTED => {
                ": this user may not write to the token; `jeton doctor` names the file and the command that mends it"
            }
            _ => "",
        }
    }

    pub fn cause(&self) -> Cause {
        use jeton_peers::Error as Peer;
        match self {
            Self::Module(failure)
            | Self::Peer(Peer::Module(failure))
            | Self::Pki(jeton_pki::Error::Module(failure)) => Cause::of_code(failure.code),
            Self::Load(_) | Self::Peer(Peer::Load(_)) => Cause::Device,
            Self::Peer(Peer::Io { source, .. }) => Cause::of_io(source),
            Self::Usage(_) | Self::Pki(jeton_pki::Error::Usage(_)) => Cause::Usage,
            Self::KeyFile { source, .. } | Self::Format(source) => Cause::of_file(source),
            Self::Pki(jeton_pki::Error::Refused(_)) => Cause::Refused,
            #[cfg(feature = "ca")]
            Self::Ca(error) => Cause::of_ca(error),
            Self::Der(_) => Cause::Damaged,
            Self::OldStore(Store::Io { source, .. }) => Cause::of_io(source),
            Self::OldStore(Store::WrongPin(_)) => Cause::WrongPin,
            Self::OldStore(Store::NoStore(_)) => Cause::NotFound,
            Self::OldStore(Store::Damaged { .. }) => Cause::Damaged,
            Self::OldStore(Store::Unsupported { .. }) => Cause::Refused,
            Self::TokenFile { cause, .. } | Self::Caused(cause, _) => *cause,
            _ => Cause::Other,
        }
    }
}

/// For the PIN of a signature, which the tool asks for while `jeton-pki` signs.
impl From<Error> for jeton_pki::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Pki(error) => error,
            Error::Module(failure) => Self::Module(failure),
            Error::Usage(text) => Self::Usage(text),
            other => Self::Failed(other.to_string()),
        }
    }
}
