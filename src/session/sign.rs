//! Signatures and message authentication codes, and their verification.

use subtle::ConstantTimeEq;

use super::operation::{Engine, Message, Operation, Output, place};
use super::otp::Otp;
use crate::backend::{Mac, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// A signature or a code in the making.
pub enum Signing {
    /// By a private key.
    Signature(Message, Box<dyn Signer>),
    /// By a secret key.
    Code(Code),
    /// A one-time password.
    Otp(Otp),
}

/// A code cut to a length.
pub struct Code {
    mac: Box<dyn Mac>,
    len: usize,
    whole: Secret,
}

impl Code {
    /// Cuts the code to `len` bytes, or not; `MechanismParamInvalid` where it has not so many.
    pub fn new(mac: Box<dyn Mac>, len: Option<usize>) -> Result<Self> {
        let whole = Secret::zeroed(mac.mac_len());
        let len = len.unwrap_or(whole.len());
        if len == 0 || len > whole.len() {
            return Err(Error::MechanismParamInvalid);
        }
        Ok(Self { mac, len, whole })
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.mac.finish(&mut self.whole)?;
        Ok(&self.whole[..self.len])
    }

    fn verify(&mut self, code: &[u8]) -> Result<()> {
        if code.len() != self.len {
            self.forget();
            return Err(Error::SignatureLenRange);
        }
        let equal = self.finish()?.ct_eq(code);
        if bool::from(equal) { Ok(()) } else { Err(Error::SignatureInvalid) }
    }

    fn forget(&mut self) {
        // A code that cannot start over is wrong from here on, never silently right.
        let _ = self.mac.reset();
    }
}

impl Signing {
    fn len(&self) -> usize {
        match self {
            Self::Signature(_, signer) => signer.signature_len(),
            Self::Code(code) => code.len,
            Self::Otp(otp) => otp.info_len(),
        }
    }
}

impl Engine for Signing {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        match self {
            Self::Signature(message, _) => message.update(data),
            Self::Code(code) => code.mac.update(data),
            Self::Otp(otp) => otp.update(data),
        }
    }

    fn forget(&mut self) {
        match self {
            Self::Signature(message, _) => message.forget(),
            Self::Code(code) => code.forget(),
            Self::Otp(_) => (),
        }
    }
}

impl Operation<Signing> {
    /// `C_Sign`
    pub fn sign(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        let Output::Buffer(out) = out else { return self.length(true, Signing::len) };
        self.once(|engine| {
            let place = place(out, engine.len())?;
            match engine {
                Signing::Signature(message, signer) => {
                    message.whole(data, |input| signer.sign(input, place))?
                }
                Signing::Code(code) => {
                    code.mac.update(data)?;
                    place.copy_from_slice(code.finish()?);
                }
                Signing::Otp(otp) => {
                    otp.update(data)?;
                    otp.write(place)?;
                }
            }
            Ok(place.len())
        })
    }

    /// `C_SignFinal`
    pub fn sign_final(&mut self, out: Output<'_>) -> Result<usize> {
        let Output::Buffer(out) = out else { return self.length(false, Signing::len) };
        self.end(|engine| {
            let place = place(out, engine.len())?;
            match engine {
                Signing::Signature(message, signer) => message.parts(|input| signer.sign(input, place))?,
                Signing::Code(code) => place.copy_from_slice(code.finish()?),
                Signing::Otp(otp) => otp.write(place)?,
            }
            Ok(place.len())
        })
    }
}

/// A verification in the making.
pub enum Verifying {
    /// By a public key.
    Signature(Message, Box<dyn Verifier>),
    /// By a secret key.
    Code(Code),
    /// Of a one-time password.
    Otp(Otp),
}

impl Engine for Verifying {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        match self {
            Self::Signature(message, _) => message.update(data),
            Self::Code(code) => code.mac.update(data),
            Self::Otp(otp) => otp.update(data),
        }
    }

    fn forget(&mut self) {
        match self {
            Self::Signature(message, _) => message.forget(),
            Self::Code(code) => code.forget(),
            Self::Otp(_) => (),
        }
    }
}

impl Operation<Verifying> {
    /// `C_Verify`
    pub fn verify(&mut self, data: &[u8], signature: &[u8]) -> Result<()> {
        self.once(|engine| match engine {
            Verifying::Signature(message, verifier) => {
                message.whole(data, |input| verifier.verify(input, signature))
            }
            Verifying::Code(code) => {
                code.mac.update(data)?;
                code.verify(signature)
            }
            Verifying::Otp(otp) => {
                otp.update(data)?;
                otp.verify(signature)
            }
        })
    }

    /// `C_VerifyFinal`
    pub fn verify_final(&mut self, signature: &[u8]) -> Result<()> {
        self.end(|engine| match engine {
            Verifying::Signature(message, verifier) => {
                message.parts(|input| verifier.verify(input, signature))
            }
            Verifying::Code(code) => code.verify(signature),
            Verifying::Otp(otp) => otp.verify(signature),
        })
    }
}
