//! One-time passwords (PKCS#11 3.2, "OTP mechanisms and parameters", "OATH HOTP"; RFC 4226).

use std::cell::Cell;
use std::ffi::{c_ulong, c_void};
use std::sync::Arc;

use jeton_secret::Secret;
use jeton_words::session::Access;
use subtle::ConstantTimeEq;

use crate::backend::{Hash, MacScheme};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, ObjectHandle, otp, value as number};
use crate::mechanism::{Mechanism, Params};
use crate::object::bits::Flag;
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
        require(fits, Error::MechanismParamInvalid)?;
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
            _ => return Err(Error::MechanismParamInvalid),
        }
        Ok(otp)
    }

    /// Fails with `DataLenRange` if there is data. PKCS#11 3.2, "OATH HOTP": the operation takes no
    /// data.
    pub(crate) fn update(&self, data: &[u8]) -> Result<()> {
        if data.is_empty() { Ok(()) } else { Err(Error::DataLenRange) }
    }

    /// Returns the length of the `CK_OTP_SIGNATURE_INFO` with its parameters and their values.
    pub(crate) fn info_len(&self) -> usize {
        STRUCT + 2 * PARAM + COUNTER + self.digits
    }

    /// Writes a `CK_OTP_SIGNATURE_INFO` of `info_len` bytes with the password and its counter. A
    /// counter that comes from the key is incremented first: for a token object, on disk.
    pub(crate) fn write(&self, out: &mut [u8]) -> Result<()> {
        let counter = match self.counter {
            Some(counter) => counter,
            None => self.count()?,
        };
        let password = self.password(counter)?;
        // The memory of an application of the agent lies elsewhere.
        let is_here = self.token.identity().is_none();
        let start = if is_here { out.as_ptr().expose_provenance() } else { 0 };
        lay_out(start, [(otp::VALUE, &password), (otp::COUNTER, &counter)], out);
        Ok(())
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

/// Size of a `CK_ULONG` in the caller's memory.
const ULONG: usize = size_of::<c_ulong>();
const POINTER: usize = size_of::<*const c_void>();
/// Size of a `CK_OTP_SIGNATURE_INFO`: a pointer and a count.
const STRUCT: usize = POINTER + ULONG;
/// Size of a `CK_OTP_PARAM`: a type, a pointer and a length. There is no padding between the
/// fields. Either pointers are as long as numbers, or the structures are packed.
const PARAM: usize = ULONG + POINTER + ULONG;

/// Writes a `CK_OTP_SIGNATURE_INFO`, its parameters and their values, in this order. Its pointers
/// are addresses in `out`, which begins at `start` for the application. PKCS#11 3.2,
/// "CK_OTP_SIGNATURE_INFO", requires one block that the caller owns. This function does not read or
/// write memory through these pointers.
fn lay_out<const N: usize>(start: usize, params: [(u64, &[u8]); N], out: &mut [u8]) {
    let mut fields = Vec::with_capacity(STRUCT + N * PARAM);
    fields.extend_from_slice(&(start + STRUCT).to_ne_bytes());
    fields.extend_from_slice(&ulong(N as u64));
    let mut at = STRUCT + N * PARAM;
    for (id, value) in params {
        fields.extend_from_slice(&ulong(id));
        fields.extend_from_slice(&(start + at).to_ne_bytes());
        fields.extend_from_slice(&ulong(value.len() as u64));
        out[at..at + value.len()].copy_from_slice(value);
        at += value.len();
    }
    out[..fields.len()].copy_from_slice(&fields);
}

#[allow(clippy::cast_possible_truncation, reason = "on a 32-bit platform CK_ULONG itself has 32 bits")]
fn ulong(number: u64) -> [u8; ULONG] {
    (number as c_ulong).to_ne_bytes()
}
