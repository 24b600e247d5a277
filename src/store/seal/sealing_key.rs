//! A sealing key: a key outside the token's file. Without it, no PIN unwraps the token key.
//!
//! Argon2id takes it as its secret parameter, in addition to the PIN. A PIN record contains the ID
//! of the key that it needs.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use argon2::{Algorithm, Argon2, Params, Version};
use jeton_secret::Secret;
use tracing::error;

use crate::config::{SealingSource, credentials};
use crate::error::{Error, Result};
use crate::file::open_chosen;

/// The shortest sealing key in bytes.
pub(crate) const SHORTEST: usize = 32;
/// The longest sealing key in bytes.
const LONGEST: usize = 4096;

/// The ID of a sealing key. It is not secret.
pub(crate) type SealingId = [u8; 8];

pub(crate) struct SealingKey {
    bytes: Secret,
    id: SealingId,
}

impl SealingKey {
    /// Reads the key from its configured location. Fails with `DeviceError` if it cannot be read or
    /// is not safe to use; the log names the reason.
    pub(crate) fn read(source: &SealingSource) -> Result<Self> {
        read_secret(source).and_then(Self::new).map_err(|reason| {
            error!("sealing key {source}: {reason}");
            Error::DeviceError
        })
    }

    fn new(bytes: Secret) -> std::result::Result<Self, String> {
        if !(SHORTEST..=LONGEST).contains(&bytes.len()) {
            return Err(format!("{} bytes long; {SHORTEST} to {LONGEST} are allowed", bytes.len()));
        }
        let mut id = SealingId::default();
        // The key is random, so the ID reveals nothing about it. The least memory and one pass are
        // enough, because the key is not a password.
        Params::new(8, 1, 1, Some(id.len()))
            .and_then(|params| {
                Argon2::new_with_secret(&bytes, Algorithm::Argon2id, Version::V0x13, params)?
                    .hash_password_into(&[], b"id of a sealing key", &mut id)
            })
            .map_err(|reason| reason.to_string())?;
        Ok(Self { bytes, id })
    }

    pub(crate) fn id(&self) -> SealingId {
        self.id
    }

    /// Returns a copy. There is no `Clone`, so that each copy of a secret is visible in the code.
    pub(crate) fn duplicate(&self) -> Self {
        Self { bytes: self.bytes.duplicate(), id: self.id }
    }

    pub(in crate::store) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns an ID in hexadecimal.
pub(crate) fn text(id: SealingId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(in crate::store) fn read_secret(source: &SealingSource) -> std::result::Result<Secret, String> {
    match source {
        SealingSource::File(path) => read_private(path),
        SealingSource::Credential(name) => match credentials() {
            // systemd sets the permissions of a credential.
            Some(directory) => read(open_chosen(&directory.join(name)).map_err(|reason| reason.to_string())?),
            None => Err("CREDENTIALS_DIRECTORY is not set".to_owned()),
        },
        SealingSource::Keyring(name) => read_keyring(name),
    }
}

/// Reads a file that no other user may read or write, as ssh demands of private keys.
fn read_private(path: &Path) -> std::result::Result<Secret, String> {
    let file = open_chosen(path).map_err(|reason| reason.to_string())?;
    let data = file.metadata().map_err(|reason| reason.to_string())?;
    let user = rustix::process::geteuid().as_raw();
    if !data.is_file() {
        return Err("not a regular file".to_owned());
    }
    if data.uid() != user && data.uid() != 0 {
        return Err("the file belongs to another user".to_owned());
    }
    if data.mode() & 0o077 != 0 {
        return Err(format!(
            "mode {:03o} lets other users read or write it; 600 is right",
            data.mode() & 0o777
        ));
    }
    read(file)
}

fn read(file: File) -> std::result::Result<Secret, String> {
    let mut bytes = Secret::zeroed(LONGEST + 1);
    let (mut len, mut file) = (0, file);
    loop {
        match file.read(&mut bytes[len..]).map_err(|reason| reason.to_string())? {
            0 => return Ok(Secret::from(&bytes[..len])),
            more => len += more,
        }
        if len == bytes.len() {
            return Err(format!("longer than {LONGEST} bytes"));
        }
    }
}

/// Reads a key of type "user" from the session keyring or the user keyring.
#[cfg(target_os = "linux")]
fn read_keyring(name: &str) -> std::result::Result<Secret, String> {
    use linux_keyutils::{KeyRing, KeyRingIdentifier};
    let search = |ring| KeyRing::from_special_id(ring, false).and_then(|ring| ring.search(name));
    let key = search(KeyRingIdentifier::Session)
        .or_else(|_| search(KeyRingIdentifier::User))
        .map_err(|reason| format!("{reason:?}"))?;
    let mut bytes = Secret::zeroed(LONGEST);
    let len = key.read(&mut &mut bytes[..]).map_err(|reason| format!("{reason:?}"))?;
    bytes.get(..len).map(Secret::from).ok_or_else(|| format!("longer than {LONGEST} bytes"))
}

#[cfg(not(target_os = "linux"))]
fn read_keyring(_: &str) -> std::result::Result<Secret, String> {
    Err("this system has no kernel keyring".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealing_key_has_at_least_32_bytes() {
        for (len, fits) in [(0, false), (31, false), (32, true), (LONGEST, true), (LONGEST + 1, false)] {
            assert_eq!(SealingKey::new(Secret::zeroed(len)).is_ok(), fits, "{len}");
        }
    }

    #[test]
    fn different_keys_have_different_ids() {
        let id = |byte: u8| SealingKey::new(Secret::new(vec![byte; 32])).expect("a key").id();
        assert_eq!(id(1), id(1));
        assert_ne!(id(1), id(2));
    }
}
