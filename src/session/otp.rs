//! One-time passwords (PKCS#11 3.2, "OTP mechanisms and parameters", "OATH HOTP"; RFC 4226).

use std::cell::Cell;
use std::sync::Arc;

use jeton_secret::Secret;
use jeton_words::operation::OneTimePassword;
use jeton_words::session::Access;
use subtle::ConstantTimeEq;

use super::operation::place;
use crate::backend::{Hash, MacScheme};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, ObjectHandle, otp, value as number};
use crate::mechanism::field;
use crate::mechanism::{Mechanism, Params};
use crate::object::flags::Flag;
use crate::object::value::Value;
use crate::object::{Object, key};
use crate::token::ClientToken;

/// Length of an HOTP counter in bytes.
const COUNTER: usize = 8;

/// The engine that generates and verifies the passwords of an HOTP key.
pub struct Otp {
    token: Arc<ClientToken>,
    access: Access,
    handle: ObjectHandle,
    key: Arc<Object>,
    /// The counter in the mechanism parameter. If it is `None`, the counter of the key is used.
    counter: Option<[u8; COUNTER]>,
    digits: usize,
}

impl Otp {
    /// Returns an engine for a signature. Fails with `MechanismParamInvalid` if the key and the
    /// parameter do not agree.
    pub(crate) fn signing(
        token: &Arc<ClientToken>,
        access: Access,
        mechanism: &Mechanism,
        handle: ObjectHandle,
        key: Arc<Object>,
    ) -> Result<Self> {
        let Params::Otp { counter, digits, format, flags } = &mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        let own = |id| key.attributes().number(id).ok_or(Error::GeneralError);
        let requirement = own(A::OTP_COUNTER_REQUIREMENT)?;
        let digits = digits.map_or_else(|| own(A::OTP_LENGTH), Ok)?;
        let friendly = flags & otp::USER_FRIENDLY_OTP == 0 || key.flag(Flag::OTP_USER_FRIENDLY_MODE);
        // HOTP needs a counter, and the next password is the result of the next call. So the flags
        // CKF_EXCLUDE_COUNTER and CKF_NEXT_OTP are refused.
        let fits = flags & (otp::NEXT_OTP | otp::EXCLUDE_COUNTER) == 0
            && friendly
            && (6..=8).contains(&digits)
            && format.is_none_or(|format| format == number::OTP_FORMAT_DECIMAL)
            && (counter.is_some() || requirement != number::OTP_PARAM_MANDATORY);
        if !fits {
            let fields =
                "pParams: CK_OTP_FLAGS, CK_OTP_OUTPUT_LENGTH, CK_OTP_OUTPUT_FORMAT or CK_OTP_COUNTER";
            return Err(field::refused(fields));
        }
        let counter = counter.filter(|_| requirement != number::OTP_PARAM_IGNORED);
        Ok(Self { token: Arc::clone(token), access, handle, key, counter, digits: digits as usize })
    }

    /// Returns an engine for a verification. PKCS#11 3.2, "HOTP OTP generation and validation": the
    /// counter must be provided.
    pub(crate) fn verifying(
        token: &Arc<ClientToken>,
        mechanism: &Mechanism,
        handle: ObjectHandle,
        key: Arc<Object>,
    ) -> Result<Self> {
        let mut otp = Self::signing(token, Access::ReadOnly, mechanism, handle, key)?;
        match mechanism.params {
            Params::Otp { counter: Some(counter), .. } => otp.counter = Some(counter),
            _ => return Err(field::refused("pParams: CK_OTP_COUNTER is missing")),
        }
        Ok(otp)
    }

    /// Fails with `DataLenRange` if there is data. PKCS#11 3.2, "OATH HOTP": the operation takes no
    /// data.
    pub(crate) fn update(&self, data: &[u8]) -> Result<()> {
        if data.is_empty() { Ok(()) } else { Err(Error::DataLenRange) }
    }

    /// Returns the length of the result: see [`OneTimePassword::room`].
    pub(crate) fn info_len(&self) -> usize {
        OneTimePassword::room(self.digits)
    }

    /// Like [`sign`](Self::sign), for a message in a single part.
    #[cold]
    pub(crate) fn sign_whole(&self, data: &[u8], out: &mut [u8]) -> Result<OneTimePassword> {
        place(out, self.info_len())?;
        self.update(data)?;
        self.sign()
    }

    /// Computes the password. A counter that comes from the key is incremented first: for a token
    /// object, on disk.
    pub(crate) fn sign(&self) -> Result<OneTimePassword> {
        let counter = match self.counter {
            Some(counter) => counter,
            None => self.count()?,
        };
        let password = self.password(counter)?;
        let mut digits = [0; OneTimePassword::MAX_DIGITS];
        digits.get_mut(..password.len()).ok_or(Error::GeneralError)?.copy_from_slice(&password);
        Ok(OneTimePassword { digits, len: password.len() as u8, counter })
    }

    /// Compares the caller's password with the expected one.
    pub(crate) fn verify(&self, given: &[u8]) -> Result<()> {
        require(given.len() == self.digits, Error::SignatureLenRange)?;
        let counter = self.counter.ok_or(Error::MechanismParamInvalid)?;
        let equal = self.password(counter)?.ct_eq(given);
        if bool::from(equal) { Ok(()) } else { Err(Error::SignatureInvalid) }
    }

    /// Returns the counter of the key and increments the stored one. No two calls get the same
    /// counter, even in different processes.
    fn count(&self) -> Result<[u8; COUNTER]> {
        let now = Cell::new([0; COUNTER]);
        self.token.rewrite(self.token.rights(self.access), self.handle, |object| {
            let mut attributes = object.attributes().duplicate();
            let counter = attributes.bytes(A::OTP_COUNTER).and_then(|bytes| bytes.as_array().copied());
            let counter = counter.ok_or(Error::GeneralError)?;
            // RFC 4226 defines no password after the last counter value.
            let next = u64::from_be_bytes(counter).checked_add(1).ok_or(Error::KeyFunctionNotPermitted)?;
            now.set(counter);
            attributes.put(A::OTP_COUNTER, Value::Bytes(next.to_be_bytes()[..].into()));
            Ok(attributes)
        })?;
        Ok(now.get())
    }

    /// Computes the password (RFC 4226, 5.3): the last decimal digits of 31 bits of the HMAC of the
    /// counter.
    fn password(&self, counter: [u8; COUNTER]) -> Result<Secret> {
        let secret = key::secret(self.key.attributes())?;
        let mut mac = self.token.provider().macs.mac(&MacScheme::Hmac(Hash::Sha1), secret)?;
        let mut code = Secret::zeroed(mac.mac_len());
        mac.update(&counter)?;
        mac.finish(&mut code)?;
        let offset = usize::from(code[code.len() - 1] & 15);
        let word = code[offset..].first_chunk().ok_or(Error::GeneralError)?;
        let mut rest = u32::from_be_bytes(*word) & 0x7fff_ffff;
        let mut digits = Secret::zeroed(self.digits);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Ok(digits)
    }
}
