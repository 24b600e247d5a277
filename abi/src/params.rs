//! Reads `CK_MECHANISM` and its parameter. Only this module reads C parameter structs. This file
//! finds the parameter of a mechanism and has the functions that the other files share. Each kind
//! of mechanism has its own file for its structs.
//!
//! An invalid parameter fails with `MechanismParamInvalid`, except where the specification requires
//! another error. The data that a parameter points to is copied after its length was checked
//! against a limit.

use std::mem::{ManuallyDrop, size_of};

use cryptoki_sys::*;
use jeton_names::structs::{self as table, Flow, Layout, Len, Target};
use jeton_secret::try_boxed;
use jeton_words::cipher::{AeadScheme, CipherMode, GcmParams, Nonce};
use jeton_words::error::{Error, Result, require};
use jeton_words::hash::Hash;
use jeton_words::id::MechanismType;
use jeton_words::limit::fits;
use jeton_words::mechanism::{self, Function};
use jeton_words::mechanism::{Mechanism, MechanismWord};
use jeton_words::params::Params;
use jeton_words::shape::{MacFunction, Shape};
use tracing::debug;

use crate::call::Failure;
use crate::ck_ulong::wide;
use crate::input::In;

mod cipher;
mod derive;
pub(crate) mod message;
mod otp;
mod rsa;
mod sign;

mod ike;
mod outputs;
mod password;
mod refused_field;
mod sp800_108;
mod tls;
pub(crate) mod wrap;

pub(crate) use outputs::Places;

/// Reads the mechanism. Fails with `ArgumentsBad` for a `NULL` pointer. In an Init function `NULL`
/// ends the operation, so these functions check for `NULL` first.
///
/// # Safety
///
/// `pointer` is `NULL` or readable. The parameter in it is readable, and so is the memory that the
/// parameter points to.
pub(crate) unsafe fn mechanism(pointer: *const CK_MECHANISM) -> Result<Mechanism> {
    // SAFETY: the caller's promise.
    let given = unsafe { Given::read(pointer) }?;
    // SAFETY: the caller's promise.
    Ok(Mechanism { info: given.info, params: unsafe { given.parse() }? })
}

/// Runs `work` with the mechanism of [`mechanism`]. A mechanism without a parameter is not parsed.
///
/// # Safety
///
/// As for [`mechanism`].
#[inline(always)]
pub(crate) unsafe fn with_mechanism(
    pointer: *const CK_MECHANISM,
    work: impl FnOnce(&Mechanism) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { Given::read(pointer) }?;
    if given.info.shape == Shape::None {
        // `None` has nothing to free, but the compiler does not know that after the call.
        return work(&ManuallyDrop::new(Mechanism { info: given.info, params: Params::None }));
    }
    // SAFETY: the caller's promise.
    work(&Mechanism { info: given.info, params: unsafe { given.parse() }? })
}

/// A mechanism whose parameter is not parsed yet.
pub(crate) struct Given {
    pub(crate) info: &'static MechanismWord,
    parameter: In,
}

impl Given {
    /// Finds the mechanism. Fails with `ArgumentsBad` for a `NULL` pointer.
    ///
    /// # Safety
    ///
    /// `pointer` is `NULL` or readable.
    #[inline]
    pub(crate) unsafe fn read(pointer: *const CK_MECHANISM) -> Result<Self> {
        require(!pointer.is_null(), Error::ArgumentsBad)?;
        // SAFETY: not null. Readable by the caller's promise.
        let given = unsafe { pointer.read_unaligned() };
        let info = mechanism::find(MechanismType(wide(given.mechanism))).ok_or(Error::MechanismInvalid)?;
        Ok(Self { info, parameter: In(given.pParameter.cast(), given.ulParameterLen) })
    }

    /// Copies the parameter.
    ///
    /// # Safety
    ///
    /// If the mechanism has a parameter, the parameter and the memory that it points to are
    /// readable.
    pub(crate) unsafe fn parse(&self) -> Result<Params> {
        // Some callers leave the fields uninitialised if the mechanism "does not have a parameter".
        if !self.info.shape.has_parameter() {
            // SAFETY: the slice is readable.
            return unsafe { params(self.info.shape, &[]) };
        }
        // SAFETY: the caller's promise.
        let parsed = unsafe { self.bytes().and_then(|parameter| params(self.info.shape, parameter)) };
        let fitting = parsed.and_then(|params| {
            let is_fitting = fits(&params, self.info.shape);
            if is_fitting { Ok(params) } else { Err(Error::MechanismParamInvalid) }
        });
        fitting.map_err(|error| self.refused(error))
    }

    /// Returns the parameter of GCM, or `None` if this is another mechanism.
    ///
    /// # Safety
    ///
    /// The parameter and the memory that it points to are readable during `'a`, and nothing writes
    /// there.
    #[inline(always)]
    pub(crate) unsafe fn gcm<'a>(&self) -> Result<Option<GcmParams<'a>>> {
        if self.info.shape != Shape::Cipher(CipherMode::Aead(AeadScheme::AesGcm)) {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let parsed = unsafe { self.bytes().and_then(|parameter| cipher::gcm(parameter)) };
        parsed.map(Some).map_err(|error| self.refused(error))
    }

    /// # Safety
    ///
    /// The parameter is readable during `'a`.
    #[inline(always)]
    unsafe fn bytes<'a>(&self) -> Result<&'a [u8]> {
        // SAFETY: the caller's promise.
        unsafe { self.parameter.bytes() }.map_err(|_| Error::MechanismParamInvalid)
    }

    /// Logs which field of the parameter is refused. The line of `guarded` names the function.
    #[cold]
    fn refused(&self, error: Error) -> Error {
        let Self { info, parameter: In(pointer, len) } = self;
        // SAFETY: the caller read the parameter, or found that it is NULL.
        let parameter = unsafe { self.bytes() }.unwrap_or_default();
        let field = refused_field::field(info.id.0, parameter);
        let null = pointer.is_null();
        debug!(mechanism = %info.id, %field, expected = ?info.shape, null, len, ?error, "the parameter is refused");
        error
    }
}

/// # Safety
///
/// The memory that the struct in `parameter` points to is readable.
unsafe fn params(shape: Shape, parameter: &[u8]) -> Result<Params> {
    // SAFETY: the caller's promise, for each function that follows a pointer.
    unsafe {
        match shape {
            Shape::None => Ok(Params::None),
            // The parameter is optional: "If no parameter is supplied …".
            Shape::Eddsa | Shape::SignContext if parameter.is_empty() => Ok(Params::None),
            Shape::Eddsa => whole(&table::EDDSA, parameter, sign::eddsa),
            Shape::SignContext => whole(&table::SIGN_CONTEXT, parameter, sign::context),
            Shape::HashSignContext => whole(&table::HASH_SIGN_CONTEXT, parameter, sign::hash_context),
            Shape::MuGen => whole(&table::MU_GEN, parameter, sign::mu_gen),
            Shape::Length => sign::length(parameter),
            Shape::Gmac => cipher::gmac(parameter),
            Shape::Pss => rsa::pss(parameter),
            Shape::Oaep => rsa::oaep(parameter),
            Shape::RsaAesWrap => rsa::aes_wrap(parameter),
            Shape::Cipher(mode) => cipher::cipher(mode, parameter),
            Shape::Ecdh => derive::ecdh(parameter),
            Shape::Hkdf => derive::hkdf(parameter),
            Shape::Data => whole(&table::STRING_DATA, parameter, derive::data),
            Shape::CbcData => whole(&table::CBC_DATA, parameter, derive::cbc_data),
            Shape::Key => derive::key(parameter),
            Shape::Bit => derive::bit(parameter),
            Shape::Integer => derive::integer(parameter),
            Shape::EcdhAesWrap => derive::ecdh_aes_wrap(parameter),
            Shape::Otp => otp::otp(parameter),
            Shape::Sp800_108(kdf) => sp800_108::params(kdf, parameter),
            Shape::Pbkdf2 => password::pbkdf2(parameter),
            Shape::Version => tls::version(parameter),
            Shape::TlsMaster(_) => whole(&table::TLS_MASTER, parameter, tls::master),
            Shape::Tls12Master(_) => whole(&table::TLS12_MASTER, parameter, tls::master12),
            Shape::Tls12ExtendedMaster(_) => {
                whole(&table::TLS12_EXTENDED_MASTER, parameter, tls::extended_master)
            }
            Shape::TlsKeys => whole(&table::TLS_KEYS, parameter, tls::keys),
            Shape::Tls12Keys => whole(&table::TLS12_KEYS, parameter, tls::keys12),
            Shape::Tls12SafeKeys => whole(&table::TLS12_SAFE_KEYS, parameter, tls::safe_keys12),
            Shape::TlsKdf => whole(&table::TLS_KDF, parameter, tls::kdf),
            Shape::TlsMac => tls::mac(parameter),
            Shape::TlsPrf => whole(&table::TLS_PRF, parameter, |given, parts| tls::prf(given, parts)),
            Shape::IkePrf => whole(&table::IKE_PRF, parameter, ike::ike_prf),
            Shape::Ike1Prf => whole(&table::IKE1_PRF, parameter, ike::ike1_prf),
            Shape::Ike1Extended => whole(&table::IKE1_EXTENDED, parameter, ike::ike1_extended),
            Shape::Ike2PrfPlus => whole(&table::IKE2_PRF_PLUS, parameter, ike::ike2_prf_plus),
        }
    }
}

/// Reads a parameter struct. The parameter must have exactly the length of a `T`.
///
/// # Safety
///
/// Any bytes are a valid `T`.
unsafe fn read<T: Copy>(parameter: &[u8]) -> Result<T> {
    require(parameter.len() == size_of::<T>(), Error::MechanismParamInvalid)?;
    // SAFETY: as long as a `T`. Any bytes are valid by the caller's promise. Alignment is not
    // needed.
    Ok(unsafe { parameter.as_ptr().cast::<T>().read_unaligned() })
}

/// Copies of the bytes that a struct points to, in the order of its pointers.
type Parts<const N: usize> = [Box<[u8]>; N];

/// Reads a struct of the table, and copies the bytes whose length is a field of it.
///
/// # Safety
///
/// Any bytes are a valid `T`, whose layout this is. The memory that it points to is readable.
unsafe fn whole<T: Copy, const N: usize>(
    layout: &Layout,
    parameter: &[u8],
    parse: impl FnOnce(T, Parts<N>) -> Result<Params>,
) -> Result<Params> {
    // SAFETY: the caller's promise.
    let given = unsafe { read::<T>(parameter) }?;
    let inputs = layout.pointers.iter().filter_map(|pointer| match pointer.target {
        Target::Bytes { len: Len::Field(len), limit, flow: Flow::In } => Some((pointer.at, len, limit)),
        _ => None,
    });
    let mut parts = std::array::from_fn(|_| Box::default());
    for (part, (at, len, limit)) in parts.iter_mut().zip(inputs) {
        // SAFETY: a pointer and a length inside the struct, by its layout. The rest is the caller's
        // promise.
        *part = unsafe {
            let (pointer, len) = (parameter.as_ptr().add(at), parameter.as_ptr().add(len));
            copy(
                In(pointer.cast::<*const u8>().read_unaligned(), len.cast::<CK_ULONG>().read_unaligned()),
                limit,
            )
        }?;
    }
    parse(given, parts)
}

/// Copies the data that a parameter struct points to, of at most `limit` bytes.
///
/// # Safety
///
/// The bytes are readable.
unsafe fn copy(bytes: In, limit: u64) -> Result<Box<[u8]>> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bounded(bytes, limit) }?;
    if bytes.is_empty() { Ok(Box::default()) } else { Ok(try_boxed(bytes)?) }
}

/// Copies a nonce that a parameter struct points to, of at most `limit` bytes.
///
/// # Safety
///
/// As for [`bounded`].
unsafe fn nonce(bytes: In, limit: u64) -> Result<Nonce> {
    // SAFETY: the caller's promise.
    unsafe { bounded(bytes, limit) }.map(Nonce::from)
}

/// Returns the data that a parameter struct points to. Fails if it has more than `limit` bytes.
///
/// # Safety
///
/// The contract of [`In::bytes`].
unsafe fn bounded<'a>(bytes: In, limit: u64) -> Result<&'a [u8]> {
    require(wide(bytes.1) <= limit, Error::MechanismParamInvalid)?;
    // SAFETY: the caller's promise.
    unsafe { bytes.bytes() }.map_err(|_| Error::MechanismParamInvalid)
}

fn boolean(given: CK_BBOOL) -> Result<bool> {
    match given {
        CK_FALSE => Ok(false),
        CK_TRUE => Ok(true),
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Reads a hash, which parameters name by the number of its digest mechanism.
fn hash(given: CK_MECHANISM_TYPE) -> Result<Hash> {
    match mechanism::find(MechanismType(wide(given))).and_then(|word| word.function) {
        Some(Function::Digest(hash)) => Ok(hash),
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Reads the pseudo-random function of a key derivation, which is a MAC without a parameter.
fn prf(given: CK_MECHANISM_TYPE) -> Result<MacFunction> {
    use MacFunction::{AesCmac, AesXcbc, Hmac};
    let word = mechanism::find(MechanismType(wide(given))).filter(|word| word.shape == Shape::None);
    match word.and_then(|word| word.function) {
        Some(Function::Mac(function @ (Hmac(_) | AesCmac | AesXcbc(16)))) => Ok(function),
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Copies an array that a parameter struct points to, of at most `limit` items.
///
/// # Safety
///
/// The array is readable, and any bytes are a valid `T`.
unsafe fn items<T: Copy>(first: *const T, count: CK_ULONG, limit: u64) -> Result<Vec<T>> {
    require(wide(count) <= limit && !(first.is_null() && count > 0), Error::MechanismParamInvalid)?;
    // The limits are small, so the addresses cannot overflow.
    let count = usize::try_from(count).map_err(|_| Error::MechanismParamInvalid)?;
    // SAFETY: not null if there is an item. Each item is readable by the caller's promise, aligned
    // or not.
    Ok((0..count).map(|index| unsafe { first.add(index).read_unaligned() }).collect())
}

/// Returns a length in bytes.
fn size(given: CK_ULONG) -> Result<usize> {
    usize::try_from(given).map_err(|_| Error::MechanismParamInvalid)
}

fn named<T: Copy>(table: &[(CK_ULONG, T)], given: CK_ULONG) -> Result<T> {
    let row = table.iter().find(|(number, _)| *number == given);
    row.map(|(_, meaning)| *meaning).ok_or(Error::MechanismParamInvalid)
}

/// Helpers for the tests of the parameters.
#[cfg(test)]
mod testing {
    use std::ptr::from_ref;

    use super::*;

    pub(super) use crate::ck_ulong::length;

    pub(super) const INVALID: Option<Error> = Some(Error::MechanismParamInvalid);
    pub(super) const HUGE: CK_ULONG = CK_ULONG::MAX;
    /// The memory that test parameters point to.
    pub(super) const BYTES: [u8; 257] = [7; 257];
    pub(super) const SOME: *mut u8 = BYTES.as_ptr().cast_mut();

    pub(super) fn invoke(mechanism: CK_MECHANISM_TYPE, parameter: *const u8, len: usize) -> Result<Params> {
        let given =
            CK_MECHANISM { mechanism, pParameter: parameter.cast_mut().cast(), ulParameterLen: length(len) };
        // SAFETY: the tests pass live memory, or pointers that must not be read.
        unsafe { super::mechanism(&raw const given) }.map(|parsed| parsed.params)
    }

    pub(super) fn with<T>(mechanism: CK_MECHANISM_TYPE, parameter: &T) -> Result<Params> {
        invoke(mechanism, from_ref(parameter).cast(), size_of::<T>())
    }
}

#[cfg(test)]
mod structs;

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::testing::*;
    use super::*;

    #[test]
    fn null_is_refused_as_a_mechanism() {
        // SAFETY: nothing is read through null.
        assert_eq!(unsafe { mechanism(null()) }.err(), Some(Error::ArgumentsBad));
    }

    #[test]
    fn an_unknown_mechanism_is_refused_before_its_parameter_is_read() {
        let dangling = std::ptr::without_provenance(8);
        assert_eq!(invoke(CKM_VENDOR_DEFINED | 7, dangling, 64).err(), Some(Error::MechanismInvalid));
    }

    #[test]
    fn a_mechanism_without_parameter_ignores_a_parameter() {
        let dangling = std::ptr::without_provenance(8);
        let words = mechanism::MECHANISMS.iter().filter(|word| !word.shape.has_parameter());
        for id in words.map(|word| word.id.0 as CK_MECHANISM_TYPE) {
            let expected = invoke(id, null(), 0);
            assert!(expected.is_ok(), "{id:#x}");
            for (pointer, len) in [(dangling, 64), (dangling, usize::MAX), (null(), 77), (BYTES.as_ptr(), 4)]
            {
                assert!(invoke(id, pointer, len) == expected, "{id:#x}: {len} bytes");
            }
        }
        assert!(invoke(CKM_SHA_1, dangling, 64) == Ok(Params::None));
        assert!(invoke(CKM_AES_ECB, dangling, 64).is_ok());
    }

    #[test]
    fn an_unaligned_mechanism_is_read() {
        let given = CK_MECHANISM { mechanism: CKM_ECDSA, pParameter: null_mut(), ulParameterLen: 0 };
        let mut memory = [0_u8; size_of::<CK_MECHANISM>() + 1];
        let place = memory.as_mut_ptr().wrapping_add(1).cast::<CK_MECHANISM>();
        // SAFETY: `place` lies inside `memory`.
        let parsed = unsafe {
            place.write_unaligned(given);
            mechanism(place)
        };
        assert!(parsed.is_ok_and(|parsed| parsed.info.id == MechanismType::ECDSA));
    }

    #[test]
    fn the_data_of_a_struct_is_copied_up_to_a_limit() {
        // SAFETY: live memory, or refused before it is read.
        let copy = |pointer, len, limit| unsafe { copy(In(pointer, len), limit) };
        assert_eq!(copy(BYTES.as_ptr(), 3, 3).as_deref(), Ok(&[7; 3][..]));
        assert_eq!(copy(null(), 0, 3).as_deref(), Ok(&[][..]));
        assert_eq!(copy(null(), 1, 3).err(), INVALID);
        assert_eq!(copy(BYTES.as_ptr(), 4, 3).err(), INVALID);
        assert_eq!(copy(BYTES.as_ptr(), HUGE, u64::MAX).err(), INVALID);
    }
}
