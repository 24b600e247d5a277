//! The simple key derivations: concatenation, XOR, extraction, encryption of data, and digest
//! (PKCS#11 3.2, "Miscellaneous simple key derivation mechanisms", "Key derivation by data
//! encryption", "Hash-based Key Derivation").

use jeton_secret::Secret;

use super::{Work, digest};
use crate::backend::{CipherScheme, Direction};
use crate::error::{Error, Result, require};
use crate::mechanism::field;
use crate::mechanism::{Derivation, Params};

impl Work<'_> {
    pub(super) fn simple(&self, derivation: Derivation) -> Result<Secret> {
        Ok(match (derivation, &self.mechanism.params) {
            (Derivation::HashOfKey(hash), Params::None) => digest(self.provider(), hash, &[self.value()?])?,
            (Derivation::ConcatenateBaseAndKey, Params::Key(other)) => {
                let other = self.other(*other)?;
                concatenate(&[self.value()?, &other])
            }
            (Derivation::ConcatenateBaseAndData, Params::Data(data)) => concatenate(&[self.value()?, data]),
            (Derivation::ConcatenateDataAndBase, Params::Data(data)) => concatenate(&[data, self.value()?]),
            (Derivation::XorBaseAndData, Params::Data(data)) => {
                let mut secret = Secret::from(&self.value()?[..data.len().min(self.value()?.len())]);
                secret.iter_mut().zip(data).for_each(|(byte, other)| *byte ^= other);
                secret
            }
            (Derivation::ExtractKeyFromKey, Params::Bit(bit)) => extract(self.value()?, *bit, self.wanted)?,
            (Derivation::EncryptData(mode), Params::Data(data)) => self.encipher(&mode.scheme(&[])?, data)?,
            (Derivation::EncryptData(mode), Params::CbcData { iv, data }) => {
                self.encipher(&mode.scheme(iv)?, data)?
            }
            _ => return Err(Error::MechanismParamInvalid),
        })
    }

    fn encipher(&self, scheme: &CipherScheme, data: &[u8]) -> Result<Secret> {
        let mut cipher = self.token.provider().ciphers.cipher(scheme, Direction::Encrypt, self.value()?)?;
        let mut out = Secret::zeroed(scheme.growth().output_len(Direction::Encrypt, data.len()));
        let wrong_len = |_| field::refused("the length of pData");
        let written = cipher.update(data, &mut out).map_err(wrong_len)?;
        cipher.finish(&mut out[written..]).map_err(wrong_len)?;
        Ok(out)
    }
}

/// Copies bits of a key, starting at bit `first`. After the last bit it continues with the first
/// one (PKCS#11 3.2, "Extraction of one key from another key").
fn extract(value: &[u8], first: u64, wanted: Option<usize>) -> Result<Secret> {
    let bits = value.len() as u64 * 8;
    if first >= bits {
        return Err(field::refused("CK_EXTRACT_PARAMS: after the last bit of the key"));
    }
    let mut out = Secret::zeroed(wanted.ok_or(Error::TemplateIncomplete)?);
    require(out.len() <= value.len(), Error::KeySizeRange)?;
    for at in 0..out.len() as u64 * 8 {
        let from = (first + at) % bits;
        let bit = value[(from / 8) as usize] >> (7 - from % 8) & 1;
        out[(at / 8) as usize] |= bit << (7 - at % 8);
    }
    Ok(out)
}

pub(super) fn concatenate(parts: &[&[u8]]) -> Secret {
    let mut out = Secret::zeroed(parts.iter().map(|part| part.len()).sum());
    let mut at = 0;
    for part in parts {
        out[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    out
}
