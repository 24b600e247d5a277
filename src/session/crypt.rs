//! Encryption and decryption, symmetric and with RSA.

use std::sync::Arc;

use jeton_secret::Secret;
use jeton_words::operation::CryptParams;

use super::operation::{Engine, Operation, Output, Parts, Resume, place};
use super::progress::Progress;
use crate::backend::{Cipher, Direction, Encryption, Growth, PrivateKey, PublicKey, Renewal, SavedCipher};
use crate::error::{Error, Result};
use crate::mechanism::Params;

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
    Public(Arc<dyn PublicKey>),
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
    /// Gives the engine another parameter of the same mechanism. `kept` is the parameter that it
    /// has. Returns false if the new parameter needs a new engine.
    #[inline]
    pub(super) fn renew(&mut self, new: CryptParams<'_>, kept: &mut Params) -> Result<bool> {
        // GCM and CBC take the parameter without a comparison, because it usually differs.
        match (self, new) {
            (Self::Cipher { cipher, .. }, CryptParams::Gcm(gcm)) => {
                let renewed = cipher.renew(Renewal::Gcm(&gcm))?;
                if renewed {
                    kept.assign_gcm(&gcm)?;
                }
                Ok(renewed)
            }
            (Self::Rsa { .. }, CryptParams::Gcm(_)) => Ok(false),
            (engine, CryptParams::Parsed(params)) => {
                if let (Self::Cipher { cipher, .. }, Params::Cipher(scheme)) = (engine, params)
                    && let Some(iv) = scheme.iv()
                    && cipher.renew(Renewal::Iv(iv))?
                {
                    *kept = params.clone();
                    return Ok(true);
                }
                Ok(kept.same(params))
            }
        }
    }

    /// Returns the maximum length of the result for a message in a single part.
    fn whole_len(&self, len: usize) -> usize {
        match self {
            Self::Cipher { growth, direction, .. } => growth.output_len(*direction, len),
            Self::Rsa { len, .. } => *len,
        }
    }

    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let outcome = match self {
            Self::Cipher { cipher, .. } => cipher.whole(input, out),
            Self::Rsa { key, scheme, .. } => key.run(scheme, input, out),
        };
        outcome.inspect_err(|_| self.forget())
    }

    /// Like [`whole`](Self::whole), for a buffer that is shorter than the maximum length `bound`. A
    /// decryption removes the padding, so the result may still fit. If it does not, the next call
    /// computes it again.
    fn shorter(&mut self, input: &[u8], out: &mut [u8], bound: usize) -> Result<usize> {
        let mut scratch = Secret::try_zeroed(bound)?;
        let len = self.whole(input, &mut scratch)?;
        let fits = place(out, len).inspect_err(|_| self.forget())?;
        fits.copy_from_slice(&scratch[..len]);
        Ok(len)
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
        let needs_pin = self.needs_pin();
        let engine = self.engine_for(Parts::Single)?;
        let needed = engine.whole_len(input.len());
        let Output::Buffer(out) = out else { return Ok(needed) };
        let outcome = if out.len() >= needed {
            engine.whole(input, out)
        } else if needs_pin {
            // The operation stays active. If the key were used, one PIN would decrypt any number of
            // ciphertexts, and return the lengths of their plaintexts.
            Err(Error::BufferTooSmall { needed })
        } else {
            engine.shorter(input, out, needed)
        };
        self.finish(outcome)
    }

    /// `C_EncryptUpdate`, `C_DecryptUpdate`, after the check of the key.
    pub(super) fn crypt_update(&mut self, input: &[u8], out: Output<'_>) -> Result<usize> {
        let engine = self.engine_for(Parts::Multiple)?;
        let needed = engine.part_len(input.len());
        let Output::Buffer(out) = out else { return Ok(announced(needed, input.len())) };
        let outcome = place(out, needed).and_then(|place| {
            self.hold(input.len(), needed)?;
            self.engine()?.part(input, place)
        });
        self.after_part(outcome)
    }

    /// `C_EncryptFinal`, `C_DecryptFinal`
    pub fn crypt_final(&mut self, out: Output<'_>) -> Result<usize> {
        let engine = self.engine_for(Parts::Multiple)?;
        let Output::Buffer(out) = out else { return Ok(engine.end_len()) };
        // The backend finishes if the result fits, even if the buffer is shorter than the upper
        // bound. Otherwise the backend keeps its state.
        let outcome = engine.end(out);
        if !matches!(outcome, Ok(_) | Err(Error::BufferTooSmall { .. })) {
            engine.forget();
        }
        self.finish(outcome)
    }
}

/// Returns the answer to a query for the length of the output for a part: an upper bound, and never
/// 0 for a part with data. A client that allocates 0 bytes may pass `NULL` again, and would lose
/// the part.
pub(super) fn announced(written: usize, part: usize) -> usize {
    if written == 0 { part } else { written }
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
