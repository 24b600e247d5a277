//! Work on tokens of Jeton that PKCS#11 has no function for. This is the only file of the driver
//! that calls the core. The rest of the driver sees modules only through their C interface.

use std::io::Read;
use std::path::{Path, PathBuf};

use cryptoki_sys::CK_ATTRIBUTE_TYPE;
use zeroize::Zeroize;

use crate::client::Attribute;
use crate::formats::SecretIdentity;
use crate::{Cause, Error};

use jeton::admin::backup::{Fault, Problem};

use jeton::config::{Format, PinRules};

pub use jeton::admin::backup::{Copy, Facts, Login, Restore};
pub use jeton::admin::keys::Flaw;
pub use jeton::admin::transfer::{Destination, MOVING, Moved};
pub use jeton::admin::{
    Info, PinCost, PinInfo, Pins, SealingChange, TokenFile, check_directory, own_directory, path_of,
    remove_empty_directory,
};
pub use jeton::config::strict::{ROLES, Role as KeyRole};
pub use jeton::file::open as open_file;
pub use jeton::store::{Remark, Role, ServerState};

/// Opens the token with this serial number or label. Without both, opens the only token.
pub fn open(serial: Option<&str>, label: Option<&str>) -> Result<TokenFile, Error> {
    let mut found = Vec::new();
    for token in all()? {
        let info = token.info().map_err(core("read a token"))?;
        let fits = serial.is_none_or(|serial| info.serial == serial)
            && label.is_none_or(|label| info.label == label);
        if fits {
            found.push(token);
        }
    }
    match found.len() {
        0 => Err(unreadable()
            .unwrap_or(Error::Caused(Cause::NotFound, "no such token in the configured store".to_owned()))),
        1 => Ok(found.remove(0)),
        _ => Err(Error::Failed("several tokens fit; choose one with --serial".to_owned())),
    }
}

/// Returns the error of the directory, or of its first token file, that this user cannot open.
pub fn unreadable() -> Option<Error> {
    let directory = directory().ok()?;
    let mut entries = std::fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let refused_token = |path: PathBuf| {
        let is_flat = path.extension().is_some_and(|ending| ending == "jeton");
        let own = token_in(&path).and_then(|token| refused(&path).or_else(|| refused(&token)));
        if is_flat { refused(&path) } else { own }
    };
    refused(&directory).or_else(|| entries.find_map(refused_token))
}

/// Returns the file of the token whose own directory this may be; `None` if the name of the
/// directory is not a serial number.
pub fn token_in(directory: &Path) -> Option<PathBuf> {
    let file = path_of(directory.parent()?, directory.file_name()?.to_str()?);
    own_directory(&file).is_some().then_some(file)
}

/// Returns why this user cannot read a file. Another user may have put a FIFO under this name, so
/// the file is not opened.
fn refused(path: &Path) -> Option<Error> {
    let reason = rustix::fs::access(path, rustix::fs::Access::READ_OK).err()?;
    (reason != rustix::io::Errno::NOENT).then(|| Error::io(path)(reason.into()))
}

/// Reads the properties of a token that can be read without a PIN.
pub fn info(token: &TokenFile) -> Result<Info, Error> {
    token.info().map_err(core("read the token"))
}

/// Opens all tokens of the configured directory or database that can be opened.
pub fn all() -> Result<Vec<TokenFile>, Error> {
    Ok(TokenFile::all(None).map_err(unopened)?.0)
}

/// Returns why the tokens cannot be opened. At the default level, the log names no directory that
/// another user keeps from this one.
fn unopened(error: jeton::error::Error) -> Error {
    let directory = directory().ok().and_then(|directory| refused(&directory));
    directory.unwrap_or_else(|| core("open the tokens")(error))
}

/// Like [`all`], after a module has opened the same files, so that its log has the reasons. Also
/// returns an error for the first damaged file. Files of other users are an error only if they are
/// the only ones.
pub fn all_again() -> Result<(Vec<TokenFile>, Option<Error>), Error> {
    let all = TokenFile::all(Some("log = { level = 'off' }"));
    let (tokens, files) = all.map_err(unopened)?;
    let damaged = files
        .iter()
        .find(|path| refused(path).is_none())
        .map(|path| Cause::Damaged.error(format!("{}: not a token; the log says why", path.display())));
    let of_others = files.iter().find_map(|path| refused(path)).filter(|_| tokens.is_empty());
    Ok((tokens, damaged.or(of_others)))
}

/// Returns one sentence for each damage of a token that can be seen without a PIN.
pub fn damage(token: &TokenFile) -> Result<Vec<String>, Error> {
    token.damage().map_err(core("look for damage"))
}

/// Resets the counts of wrong PINs of the SO and of the user to zero.
pub fn reset_failures(token: &TokenFile) -> Result<(), Error> {
    token.reset_failures().map_err(core("unlock the PINs"))
}

/// Sets a new SO PIN. This needs the user PIN.
pub fn reset_so_pin(token: &TokenFile, user_pin: &str, new: &str) -> Result<(), Error> {
    token.reset_so_pin(user_pin.as_bytes(), new.as_bytes()).map_err(core("set the SO PIN"))
}

pub fn rename(token: &TokenFile, so_pin: &str, label: &str) -> Result<(), Error> {
    token.rename(so_pin.as_bytes(), label).map_err(core("rename the token"))
}

/// Returns the configured directory of the tokens.
pub fn directory() -> Result<PathBuf, Error> {
    jeton::admin::directory().map_err(core("read the configuration"))
}

/// Copies one state of the token's store. Other processes may write to the token meanwhile.
pub fn copy(token: &TokenFile) -> Result<Copy, Error> {
    token.copy().map_err(problem("copy the token"))
}

/// Writes the store of a backup into a new file of this directory.
pub fn receive(directory: &Path, serial: &str, input: &mut dyn Read) -> Result<Copy, Error> {
    Copy::receive(directory, serial, input).map_err(problem("decrypt the backup"))
}

pub fn contents(copy: &Copy) -> Result<impl Read, Error> {
    copy.file().map_err(problem("read the copy"))
}

/// Checks every record of a copy. With a PIN, decrypts each record.
pub fn check(copy: &Copy, login: Option<Login<'_>>) -> Result<Facts, Error> {
    copy.check(login).map_err(problem("check the copy"))
}

/// Restores a token from a copy. Returns the facts about the token and the path of its file.
pub fn restore(copy: Copy, how: Restore<'_>) -> Result<(Facts, PathBuf), Error> {
    copy.restore(how).map_err(problem("restore the token"))
}

/// Moves a flat token into a directory of its own.
pub fn give_own_directory(path: &Path) -> Result<PathBuf, Error> {
    jeton::admin::layout::give_own_directory(None, path).map_err(problem("move the token"))
}

pub fn move_token(serial: Option<&str>, label: Option<&str>, to: Destination) -> Result<Moved, Error> {
    jeton::admin::transfer::move_token(serial, label, to).map_err(problem("move the token"))
}

/// Examines the database that has the tokens; `None` if they are in files.
pub fn examine_database() -> Result<Option<ServerState>, Error> {
    jeton::admin::examine_database().map_err(core("use the database"))
}

/// Removes a token from the database that has the tokens. Returns its place; `None` if the tokens
/// are in files.
pub fn remove_from_database(serial: &str) -> Result<Option<PathBuf>, Error> {
    jeton::admin::remove_from_database(serial).map_err(core("delete the token"))
}

fn problem(what: &'static str) -> impl FnOnce(Problem) -> Error {
    move |problem| {
        let cause = match problem.fault {
            Fault::Other => Cause::Other,
            Fault::WrongPin => Cause::WrongPin,
            Fault::Exists => Cause::Exists,
            Fault::Damaged => Cause::Damaged,
            Fault::NotPermitted => Cause::NotPermitted,
            Fault::Device => Cause::Device,
        };
        Error::TokenFile { what, cause, reason: problem.to_string() }
    }
}

/// Returns the files of the configuration, and the names and values of the main settings.
pub fn configuration() -> Result<Vec<(&'static str, String)>, Error> {
    jeton::admin::configuration().map_err(core("read the configuration"))
}

/// Returns the name of the policy of the configuration.
fn policy() -> Result<String, Error> {
    let found = configuration()?.into_iter().find(|(key, _)| *key == "policy.name");
    Ok(found.map(|(_, name)| name).unwrap_or_default())
}

/// Returns whether the rules of the policy *strict* hold: *cnsa2* has them too.
pub fn is_strict() -> Result<bool, Error> {
    Ok(policy()? != "compatible")
}

/// Returns whether the policy of the configuration is *cnsa2*.
pub fn is_cnsa2() -> Result<bool, Error> {
    Ok(policy()? == "cnsa2")
}

/// Returns the library parameters with the cheapest key derivation that the configuration allows.
pub fn cheapest_derivation() -> String {
    format!(
        "pin = {{ memory-kib = {}, passes = {} }}",
        PinRules::MEMORY_KIB.start(),
        PinRules::PASSES.start()
    )
}

/// A key pair of a file, as templates of `C_CreateObject` with class and type.
pub struct KeyPair {
    /// The private key. Wiped when it is dropped.
    pub private: PrivateTemplate,
    pub public: Vec<Attribute>,
    pub public_key_info: Vec<u8>,
}

/// The attributes of a private key. They are wiped when they are dropped.
pub struct PrivateTemplate(pub Vec<Attribute>);

impl Drop for PrivateTemplate {
    fn drop(&mut self) {
        for attribute in &mut self.0 {
            attribute.value.zeroize();
        }
    }
}

/// Reads a private key in PKCS #8 and computes its public key.
pub fn read_private_key(der: &[u8]) -> Result<KeyPair, Error> {
    use jeton::error::Error as Core;
    let pair = jeton::admin::keys::read_private_key(der).map_err(|error| {
        let (what, is_known) = jeton_formats::algorithm(der);
        let (cause, text) = match error {
            Core::KeySizeRange => (
                Cause::Refused,
                format!(
                    "a key with {what} of this size is not supported: RSA and DH have at least 1024 bits"
                ),
            ),
            Core::CurveNotSupported => (Cause::Refused, format!("a key with {what} is not supported")),
            Core::TemplateInconsistent => {
                (Cause::Damaged, "the file has the public key of another private key".to_owned())
            }
            Core::WrappedKeyInvalid if is_known => {
                (Cause::Damaged, format!("damaged private key with {what}"))
            }
            Core::WrappedKeyInvalid => (Cause::Refused, format!("a key with {what} is not supported")),
            Core::AttributeValueInvalid => {
                (Cause::Damaged, format!("the numbers of the private key with {what} do not fit each other"))
            }
            error => (Cause::Damaged, format!("the private key with {what} is not valid: {error:?}")),
        };
        Error::Caused(cause, text)
    })?;
    let attributes = |bytes: &jeton::admin::keys::Bytes| {
        bytes.iter().map(|(id, value)| Attribute::bytes(narrow(*id), value.to_vec())).collect()
    };
    Ok(KeyPair {
        private: PrivateTemplate(attributes(&pair.private)),
        public: attributes(&pair.public),
        public_key_info: pair.public_key_info,
    })
}

/// Encodes the public key with these attributes as SubjectPublicKeyInfo. Returns `None` if they do
/// not describe a public key of a known type.
pub fn public_key_info(attributes: &[Attribute]) -> Option<Vec<u8>> {
    jeton::admin::keys::public_key_info(&bytes(attributes)).ok()
}

/// Checks a public key of a stranger. Returns it as SubjectPublicKeyInfo, whose point is not
/// compressed.
pub fn check_public_key(template: &[Attribute]) -> Result<Vec<u8>, Flaw> {
    jeton::admin::keys::check_public_key(&bytes(template))
}

/// Returns whether a public key made a signature of a message: a key of ML-DSA, of a composite or
/// of SLH-DSA, without a context.
pub fn is_signed(template: &[Attribute], message: &[u8], signature: &[u8]) -> bool {
    jeton::admin::keys::is_signed(&bytes(template), message, signature).unwrap_or(false)
}

/// Returns whether the owner of one of two public keys knows the private key of the other.
pub fn have_one_secret(one: &SecretIdentity, other: &SecretIdentity) -> bool {
    use SecretIdentity as I;
    match (one, other) {
        (I::Modulus(one), I::Modulus(other)) => jeton::admin::keys::have_common_factor(one, other),
        (I::Secp256k1(one), I::Secp256k1(other)) => jeton::admin::keys::have_one_secret(one, other),
        _ => one == other,
    }
}

fn bytes(attributes: &[Attribute]) -> Vec<(u64, Vec<u8>)> {
    attributes.iter().map(|one| (wide(one.kind), one.value.clone())).collect()
}

#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
fn wide(id: CK_ATTRIBUTE_TYPE) -> u64 {
    u64::from(id)
}

fn narrow(id: u64) -> CK_ATTRIBUTE_TYPE {
    id as CK_ATTRIBUTE_TYPE
}

/// Tries the PINs, and counts wrong ones.
pub fn try_pins(token: &TokenFile, pins: &Pins<'_>) -> Result<(), Error> {
    token.try_pins(pins).map_err(core("try the PINs"))
}

/// Makes a new token key, and encrypts all records again with it.
pub fn rekey(token: &TokenFile, pins: &Pins<'_>) -> Result<(), Error> {
    token.rekey(pins).map_err(core("make a new token key"))
}

/// Makes a new token key, and encrypts all records again with it and with the algorithms that are
/// approved for FIPS 140-3, or with the usual ones.
pub fn convert(token: &TokenFile, pins: &Pins<'_>, fips: bool) -> Result<(), Error> {
    let format = if fips { Format::Fips } else { Format::Standard };
    token.convert(pins, format).map_err(core("convert the token"))
}

/// Changes the sealing key. `old` names the source of the current key, if the configuration does
/// not.
pub fn change_sealing_key(
    token: &TokenFile,
    pins: &Pins<'_>,
    change: SealingChange,
    old: Option<&str>,
) -> Result<(), Error> {
    let old = old.map(str::parse).transpose();
    let old = old.map_err(|reason: &str| Error::Usage(format!("--old {reason}")))?;
    token.change_sealing_key(pins, change, old.as_ref()).map_err(core("change the sealing key"))
}

pub fn new_sealing_key(path: &Path) -> Result<(), Error> {
    jeton::admin::new_sealing_key(path).map_err(Error::io(path))
}

/// Converts an error of the core into a message, as in `map_err(core("change the PIN"))`. The
/// message says what failed, and the reason if the core names it. The log has more. It goes to
/// standard error unless the configuration names a file.
fn core(what: &'static str) -> impl Fn(jeton::error::Error) -> Error {
    use jeton::error::Error as Core;
    move |error| {
        let reason = match error {
            Core::PinIncorrect => "the PIN is wrong".to_owned(),
            Core::PinLocked => "the PIN is locked".to_owned(),
            Core::PinLenRange => "the PIN is too short or too long".to_owned(),
            Core::UserPinNotInitialized => "the user's PIN was never set".to_owned(),
            Core::DeviceMemory => "the disk is full".to_owned(),
            Core::TokenWriteProtected => "the file is read-only".to_owned(),
            Core::TokenNotRecognized => "it is damaged; `jeton doctor` says more".to_owned(),
            Core::GeneralError => "the log says why".to_owned(),
            other => format!("{other:?}; the log says why"),
        };
        let cause = match error {
            Core::PinIncorrect => Cause::WrongPin,
            Core::PinLocked => Cause::Locked,
            Core::PinLenRange => Cause::Refused,
            Core::UserPinNotInitialized => Cause::NotFound,
            Core::TokenWriteProtected => Cause::NotPermitted,
            Core::TokenNotRecognized => Cause::Damaged,
            _ => Cause::Device,
        };
        Error::TokenFile { what, cause, reason }
    }
}
