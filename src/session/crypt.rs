//! Encryption and decryption, symmetric and with RSA.

use std::sync::Arc;

use super::operation::{Engine, Operation, Output, Parts, Resume};
use super::progress::Progress;
use crate::backend::{
    Cipher, Direction, Encryption, GcmParams, Growth, PrivateKey, PublicKey, Renewal, SavedCipher,
};
use crate::error::{Error, Result};
use crate::mechanism::Params;
use crate::secret::Secret;

/// The engine of an encryption or a decryption.
pub enum Crypting {
    /// A cipher with a secret key.
    Cipher {
        /// The cipher with its key.
        cipher: Box<dyn Cipher>,
        /// The rule for the length of a message's output.
        growth: Growth,
        /// Encryption or decryption.
        direction: Direction,
    },
    /// RSA. The message is a single block, in a single part.
    Rsa {
        /// The half of the key pair that the direction needs.
        key: RsaHalf,
        /// The padding.
        scheme: Encryption,
        /// Length of the modulus in bytes.
        len: usize,
    },
}

/// The public or the private half of an RSA key pair.
pub enum RsaHalf {
    /// The public key, which encrypts.
    Public(Arc<dyn PublicKey>),
    /// The private key, which decrypts.
    Private(Arc<dyn PrivateKey>),
}

impl RsaHalf {
    /// Encrypts or decrypts one block into the front of `out`. Returns the length of the result.
    fn run(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        match self {
            Self::Public(key) => key.encrypt(scheme, input, out),
            Self::Private(key) => key.decrypt(scheme, input, out),
        }
    }
}

impl Crypting {
    /// Gives the engine another parameter of the same mechanism, except GCM. `kept` is the
    /// parameter that it has. Returns false if the new parameter needs a new engine.
    pub(super) fn renew(&mut self, new: &Params, kept: &mut Params) -> Result<bool> {
        // CBC takes the vector without a comparison, because it usually differs.
        if let (Self::Cipher { cipher, .. }, Params::Cipher(scheme)) = (self, new)
            && let Some(iv) = scheme.iv()
            && cipher.renew(Renewal::Iv(iv))?
        {
            *kept = new.clone();
            return Ok(true);
        }
        Ok(kept.same(new))
    }

    /// Like [`renew`](Self::renew), for GCM.
    #[inline]
    pub(super) fn renew_gcm(&mut self, new: &GcmParams<'_>, kept: &mut Params) -> Result<bool> {
        let Self::Cipher { cipher, growth, .. } = self else { return Ok(false) };
        if !cipher.renew(Renewal::Gcm(new))? {
            return Ok(false);
        }
        *growth = Growth::By(new.tag_len);
        kept.assign_gcm(new)?;
        Ok(true)
    }

    /// Returns the maximum length of the result for a message in a single part.
    fn whole_len(&self, len: usize) -> usize {
        match self {
            Self::Cipher { growth, direction, .. } => growth.output_len(*direction, len),
            Self::Rsa { len, .. } => *len,
        }
    }

    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        match self {
            Self::Cipher { cipher, .. } => cipher.whole(input, out),
            Self::Rsa { key, scheme, .. } => key.run(scheme, input, out),
        }
    }

    fn part_len(&self, len: usize) -> usize {
        match self {
            Self::Cipher { cipher, .. } => cipher.update_len(len),
            Self::Rsa { .. } => 0,
        }
    }

    fn part(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        match self {
            Self::Cipher { cipher, .. } => cipher.update(input, out),
            Self::Rsa { .. } => Err(Error::OperationNotInitialized),
        }
    }

    fn end_len(&self) -> usize {
        match self {
            Self::Cipher { cipher, .. } => cipher.finish_len(),
            Self::Rsa { .. } => 0,
        }
    }

    fn end(&mut self, out: &mut [u8]) -> Result<usize> {
        match self {
            Self::Cipher { cipher, .. } => cipher.finish(out),
            Self::Rsa { .. } => Err(Error::OperationNotInitialized),
        }
    }
}

impl Engine for Crypting {
    fn forget(&mut self) {
        match self {
            // A cipher whose reset fails also fails at its next use.
            Self::Cipher { cipher, .. } => drop(cipher.reset()),
            Self::Rsa { .. } => {}
        }
    }
}

impl Resume for Crypting {
    fn save(&self) -> Result<Progress> {
        match self {
            Self::Cipher { cipher, .. } => cipher.save().map(Progress::Cipher),
            Self::Rsa { .. } => Err(Error::StateUnsaveable),
        }
    }

    fn resume(&mut self, progress: &Progress) -> Result<()> {
        match (self, progress) {
            (Self::Cipher { cipher, .. }, Progress::Cipher(saved)) => go_on(cipher, saved),
            _ => Err(Error::SavedStateInvalid),
        }
    }
}

impl Operation<Crypting> {
    /// `C_Encrypt`, `C_Decrypt`
    pub fn crypt(&mut self, input: &[u8], out: Output<'_>) -> Result<usize> {
        let Output::Buffer(out) = out else {
            return self.length(Parts::Single, |engine| engine.whole_len(input.len()));
        };
        let needs_pin = self.needs_pin();
        self.once(|engine| {
            let needed = engine.whole_len(input.len());
            if out.len() >= needed {
                return engine.whole(input, out).inspect_err(|_| engine.forget());
            }
            // The operation stays active. If the key were used, one PIN would decrypt any number of
            // ciphertexts, and return the lengths of their plaintexts.
            if needs_pin {
                return Err(Error::BufferTooSmall { needed });
            }
            // The result may be shorter than `needed`, because a decryption removes the padding. If
            // the result does not fit, the next call computes it again.
            shorter(out, needed, |scratch| engine.whole(input, scratch)).inspect_err(|_| engine.forget())
        })
    }

    /// `C_EncryptUpdate`, `C_DecryptUpdate`, after the check of the key.
    pub(super) fn crypt_update(&mut self, input: &[u8], out: Output<'_>) -> Result<usize> {
        let Output::Buffer(out) = out else {
            return self.length(Parts::Multiple, |engine| engine.part_len(input.len()));
        };
        self.part(|engine| {
            let needed = engine.part_len(input.len());
            let place = out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
            engine.part(input, place)
        })
    }

    /// `C_EncryptFinal`, `C_DecryptFinal`
    pub fn crypt_final(&mut self, out: Output<'_>) -> Result<usize> {
        let Output::Buffer(out) = out else { return self.length(Parts::Multiple, Crypting::end_len) };
        // The backend finishes if the result fits, even if the buffer is shorter than the upper
        // bound. Otherwise the backend keeps its state.
        self.end(|engine| {
            engine.end(out).inspect_err(|error| {
                if !matches!(error, Error::BufferTooSmall { .. }) {
                    engine.forget();
                }
            })
        })
    }
}

/// Continues from the saved state of a cipher with the same scheme and key. The saved state does
/// not change.
fn go_on(cipher: &mut Box<dyn Cipher>, saved: &SavedCipher) -> Result<()> {
    match saved {
        SavedCipher::Collected(message) => cipher.update(message, &mut []).map(drop),
        SavedCipher::Running(running) => match running.save()? {
            SavedCipher::Running(copy) => {
                *cipher = copy;
                Ok(())
            }
            SavedCipher::Collected(_) => Err(Error::SavedStateInvalid),
        },
    }
}

/// Computes a result that may be shorter than its bound, for a buffer that is shorter than the
/// bound.
fn shorter(out: &mut [u8], bound: usize, work: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<usize> {
    let mut scratch = Secret::try_zeroed(bound)?;
    let len = work(&mut scratch)?;
    let place = out.get_mut(..len).ok_or(Error::BufferTooSmall { needed: len })?;
    place.copy_from_slice(&scratch[..len]);
    Ok(len)
}
