//! The output pointers of `C_DeriveKey`: `phKey`, and the pointers inside parameter structs for
//! further keys, a version, initialisation vectors or bytes.

use cryptoki_sys::*;
use jeton_secret::Secret;
use jeton_words::derive::{Additional, Connection, Derived};
use jeton_words::error::{Error, Result, require};
use jeton_words::mechanism::Mechanism;
use jeton_words::params::Params;
use jeton_words::shape::{KeyExchange, Shape};

use super::{read, sp800_108};
use crate::ck_ulong::{length, narrow};
use crate::input::{In, Place};

/// The output pointers of a derivation.
pub(crate) enum Places<'a> {
    /// The handle goes to `phKey`.
    Key(Place<CK_OBJECT_HANDLE>),
    /// The handle goes to `phKey`. The handles of the further keys go to the pointers in the
    /// parameter.
    Keys(Place<CK_OBJECT_HANDLE>, Vec<Additional<'a>>, Vec<*mut CK_OBJECT_HANDLE>),
    /// The handle goes to `phKey`, and the version to `pVersion` if that is not `NULL`.
    Master(Place<CK_OBJECT_HANDLE>, Option<Place<CK_VERSION>>),
    /// The results go to `pReturnedKeyMaterial` and the memory that it points to.
    Connection(Place<CK_SSL3_KEY_MAT_OUT>, CK_SSL3_KEY_MAT_OUT),
    /// The bytes go to `pOutput`, and their number to `pulOutputLen`.
    Output(*mut CK_BYTE, Place<CK_ULONG>),
}

impl<'a> Places<'a> {
    /// Reads the output pointers of a mechanism. Fails if `phKey` is `NULL` and the mechanism
    /// returns a handle there. For other mechanisms "the parameter phKey … is unnecessary, and
    /// should be a NULL_PTR".
    ///
    /// # Safety
    ///
    /// The contract of PKCS#11 for `pMechanism` and `phKey` holds during `'a`. `mechanism` was
    /// read from `pMechanism`.
    pub(crate) unsafe fn of(
        given: *const CK_MECHANISM,
        mechanism: &Mechanism,
        key: *mut CK_OBJECT_HANDLE,
    ) -> Result<Self> {
        // SAFETY: the caller's promise. `mechanism` was read from it, so it is not null.
        let given = unsafe { given.read_unaligned() };
        // SAFETY: the caller's promise.
        let parameter = unsafe { In(given.pParameter.cast(), given.ulParameterLen).bytes() }?;
        // SAFETY: the caller's promise. Each of the structs has only integers and pointers.
        unsafe {
            Ok(match mechanism.info.shape {
                Shape::Sp800_108(kdf) => {
                    let (keys, handles) = sp800_108::additional(kdf, parameter)?.into_iter().unzip();
                    Self::Keys(Place::at(key)?, keys, handles)
                }
                Shape::TlsMaster(exchange) => {
                    master(exchange, key, read::<CK_SSL3_MASTER_KEY_DERIVE_PARAMS>(parameter)?.pVersion)?
                }
                Shape::Tls12Master(exchange) => {
                    master(exchange, key, read::<CK_TLS12_MASTER_KEY_DERIVE_PARAMS>(parameter)?.pVersion)?
                }
                Shape::Tls12ExtendedMaster(exchange) => master(
                    exchange,
                    key,
                    read::<CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS>(parameter)?.pVersion,
                )?,
                Shape::TlsKeys => {
                    connection(mechanism, read::<CK_SSL3_KEY_MAT_PARAMS>(parameter)?.pReturnedKeyMaterial)?
                }
                Shape::Tls12Keys | Shape::Tls12SafeKeys => {
                    connection(mechanism, read::<CK_TLS12_KEY_MAT_PARAMS>(parameter)?.pReturnedKeyMaterial)?
                }
                Shape::TlsPrf => {
                    // Neither pointer is null, because `params::tls` refused that.
                    let given: CK_TLS_PRF_PARAMS = read(parameter)?;
                    Self::Output(given.pOutput, Place::at(given.pulOutputLen)?)
                }
                _ => Self::Key(Place::at(key)?),
            })
        }
    }

    /// Returns the further keys.
    pub(crate) fn more(&mut self) -> &mut [Additional<'a>] {
        match self {
            Self::Keys(_, keys, _) => keys,
            _ => &mut [],
        }
    }

    /// Writes the results to the output pointers. If the call failed because of the template of a
    /// further key, writes 0 as the handle of this key.
    ///
    /// # Safety
    ///
    /// The contract of PKCS#11 for the output pointers.
    pub(crate) unsafe fn put(self, outcome: Result<Derived>) -> Result<()> {
        // SAFETY: the caller's promise, for each of the output pointers.
        unsafe {
            if let Self::Keys(_, keys, handles) = &self {
                for (key, place) in keys.iter().zip(handles) {
                    if let Some(handle) = key.key {
                        // The handle of a call that failed is that of no key.
                        let handle = if outcome.is_ok() { narrow(handle.0) } else { CK_INVALID_HANDLE };
                        place.write_unaligned(handle);
                    }
                }
            }
            match (self, outcome?) {
                (Self::Key(place) | Self::Keys(place, ..), Derived::Key(key)) => place.put(narrow(key.0)),
                (Self::Master(place, version), Derived::Master(key, known)) => {
                    place.put(narrow(key.0));
                    if let (Some(version), Some([major, minor])) = (version, known) {
                        version.put(CK_VERSION { major, minor });
                    }
                }
                (Self::Connection(place, out), Derived::Connection(connection)) => {
                    place.put(write_ivs(out, &connection));
                }
                (Self::Output(place, len), Derived::Output(bytes)) => {
                    put_bytes(place, &bytes);
                    len.put(length(bytes.len()));
                }
                _ => return Err(Error::GeneralError),
            }
        }
        Ok(())
    }
}

/// Returns the output pointers of a master secret. For Diffie-Hellman "the pVersion field of the
/// structure must be set to NULL_PTR". For RSA it is optional.
fn master<'a>(
    exchange: KeyExchange,
    key: *mut CK_OBJECT_HANDLE,
    version: *mut CK_VERSION,
) -> Result<Places<'a>> {
    require(exchange == KeyExchange::Rsa || version.is_null(), Error::MechanismParamInvalid)?;
    Ok(Places::Master(Place::at(key)?, Place::at(version).ok()))
}

/// # Safety
///
/// `out` is `NULL` or readable.
unsafe fn connection<'a>(mechanism: &Mechanism, out: *mut CK_SSL3_KEY_MAT_OUT) -> Result<Places<'a>> {
    let place = Place::at(out).map_err(|_| Error::MechanismParamInvalid)?;
    // SAFETY: not null. Readable by the caller's promise.
    let given = unsafe { out.read_unaligned() };
    let ivs = matches!(mechanism.params, Params::TlsKeys { iv_len, .. } if iv_len > 0);
    if ivs && (given.pIVClient.is_null() || given.pIVServer.is_null()) {
        return Err(Error::MechanismParamInvalid);
    }
    Ok(Places::Connection(place, given))
}

/// Writes the initialisation vectors. Returns the struct with the handles.
///
/// # Safety
///
/// The memory that `out` points to is writable for the initialisation vectors.
unsafe fn write_ivs(out: CK_SSL3_KEY_MAT_OUT, connection: &Connection) -> CK_SSL3_KEY_MAT_OUT {
    // SAFETY: the caller's promise. Not null if there is a vector.
    unsafe {
        put_bytes(out.pIVClient, &connection.ivs[0]);
        put_bytes(out.pIVServer, &connection.ivs[1]);
    }
    let pair = |keys: Option<[jeton_words::id::ObjectHandle; 2]>| {
        keys.map_or([CK_INVALID_HANDLE; 2], |keys| keys.map(|key| narrow(key.0)))
    };
    let ([hClientMacSecret, hServerMacSecret], [hClientKey, hServerKey]) =
        (pair(connection.macs), pair(connection.keys));
    CK_SSL3_KEY_MAT_OUT { hClientMacSecret, hServerMacSecret, hClientKey, hServerKey, ..out }
}

/// # Safety
///
/// `place` is writable for the bytes, if there are any.
unsafe fn put_bytes(place: *mut CK_BYTE, bytes: &Secret) {
    if !bytes.is_empty() {
        // SAFETY: the caller's promise. The bytes are memory of this library.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

#[cfg(test)]
mod tests {
    use jeton_words::id::ObjectHandle;
    use jeton_words::template::Template;

    use super::*;

    #[test]
    fn a_derivation_that_fails_writes_no_handle_but_0() {
        let derived = || Ok(Derived::Key(ObjectHandle(4)));
        for (outcome, known, expected) in [
            (derived(), Some(5), [4, 5]),
            (Err(Error::TemplateInconsistent), Some(0), [9, 0]),
            (Err(Error::SessionHandleInvalid), Some(5), [9, 0]),
            (Err(Error::SessionHandleInvalid), None, [9, 9]),
        ] {
            let mut handles = [9; 2];
            let [key, more] = &mut handles;
            let known = Additional { template: Template::default(), key: known.map(ObjectHandle) };
            let is_ok = outcome.is_ok();
            let places = Places::Keys(Place::at(key).expect("a place"), vec![known], vec![more]);
            // SAFETY: both handles are live.
            assert_eq!(unsafe { places.put(outcome) }.is_ok(), is_ok);
            assert_eq!(handles, expected);
        }
    }
}
