//! The parameters of TLS (PKCS#11 3.2, "SSL mechanism parameters", "TLS 1.2 mechanism parameters").
//! The file `outputs.rs` reads their output pointers.

use cryptoki_sys::*;
use jeton_words::error::{Error, Result, require};
use jeton_words::params::Params;
use jeton_words::tls::{Randoms, TlsPrf};

use super::{Parts, boolean, hash, read, size};

/// Reads `CK_VERSION`.
pub(super) fn version(parameter: &[u8]) -> Result<Params> {
    // SAFETY: bytes.
    let given: CK_VERSION = unsafe { read(parameter) }?;
    Ok(Params::Version([given.major, given.minor]))
}

pub(super) fn master(_: CK_SSL3_MASTER_KEY_DERIVE_PARAMS, randoms: Parts<2>) -> Result<Params> {
    Ok(Params::TlsMaster { prf: TlsPrf::Md5Sha1, randoms: self::randoms(randoms) })
}

pub(super) fn master12(given: CK_TLS12_MASTER_KEY_DERIVE_PARAMS, randoms: Parts<2>) -> Result<Params> {
    Ok(Params::TlsMaster {
        prf: TlsPrf::Hash(hash(given.prfHashMechanism)?),
        randoms: self::randoms(randoms),
    })
}

/// Reads `CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS`.
pub(super) fn extended_master(
    given: CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS,
    [session_hash]: Parts<1>,
) -> Result<Params> {
    Ok(Params::TlsExtendedMaster { prf: TlsPrf::Hash(hash(given.prfHashMechanism)?), session_hash })
}

pub(super) fn keys(given: CK_SSL3_KEY_MAT_PARAMS, randoms: Parts<2>) -> Result<Params> {
    let bits = [given.ulMacSizeInBits, given.ulKeySizeInBits, given.ulIVSizeInBits];
    key_material(TlsPrf::Md5Sha1, bits, given.bIsExport, randoms)
}

pub(super) fn keys12(given: CK_TLS12_KEY_MAT_PARAMS, randoms: Parts<2>) -> Result<Params> {
    let bits = [given.ulMacSizeInBits, given.ulKeySizeInBits, given.ulIVSizeInBits];
    key_material(TlsPrf::Hash(hash(given.prfHashMechanism)?), bits, given.bIsExport, randoms)
}

/// Reads the same struct for keys without initialisation vectors: "the ulIvSizeInBits field is
/// ignored and treated as 0".
pub(super) fn safe_keys12(given: CK_TLS12_KEY_MAT_PARAMS, randoms: Parts<2>) -> Result<Params> {
    keys12(CK_TLS12_KEY_MAT_PARAMS { ulIVSizeInBits: 0, ..given }, randoms)
}

fn key_material(prf: TlsPrf, bits: [CK_ULONG; 3], export: CK_BBOOL, randoms: Parts<2>) -> Result<Params> {
    // Export keys are refused. Of these versions only TLS 1.0 has export ciphers. They are
    // obsolete, and RFC 8996 deprecates TLS 1.0.
    require(!boolean(export)?, Error::MechanismParamInvalid)?;
    let [mac_len, key_len, iv_len] = bits
        .map(|bits| if bits.is_multiple_of(8) { size(bits / 8) } else { Err(Error::MechanismParamInvalid) });
    let randoms = self::randoms(randoms);
    Ok(Params::TlsKeys { prf, randoms, mac_len: mac_len?, key_len: key_len?, iv_len: iv_len? })
}

pub(super) fn kdf(given: CK_TLS_KDF_PARAMS, parts: Parts<4>) -> Result<Params> {
    let [label, client, server, context] = parts;
    // RFC 5705, 4: the context follows its length in two bytes, also if it is empty.
    let context = (!given.pContextData.is_null()).then_some(context);
    Ok(Params::TlsKdf {
        prf: any_prf(given.prfMechanism)?,
        label,
        randoms: Randoms { client, server },
        context,
    })
}

/// Reads `CK_TLS_MAC_PARAMS`.
pub(super) fn mac(parameter: &[u8]) -> Result<Params> {
    // SAFETY: integers.
    let given: CK_TLS_MAC_PARAMS = unsafe { read(parameter) }?;
    let (prf, len) = (any_prf(given.prfHashMechanism)?, size(given.ulMacLength)?);
    let server = match given.ulServerOrClient {
        1 => true,
        2 => false,
        _ => return Err(Error::MechanismParamInvalid),
    };
    Ok(Params::TlsMac { prf, len, server })
}

/// Reads `CK_TLS_PRF_PARAMS`.
///
/// # Safety
///
/// The length of the output is readable.
pub(super) unsafe fn prf(given: CK_TLS_PRF_PARAMS, [seed, label]: Parts<2>) -> Result<Params> {
    require(!given.pulOutputLen.is_null() && !given.pOutput.is_null(), Error::MechanismParamInvalid)?;
    // SAFETY: not null. Readable by the caller's promise.
    let len = size(unsafe { given.pulOutputLen.read_unaligned() })?;
    Ok(Params::TlsPrf { seed, label, len })
}

fn randoms([client, server]: Parts<2>) -> Randoms {
    Randoms { client, server }
}

/// Returns the hash of TLS 1.2, "or CKM_TLS_PRF to use with the TLS1.0 and 1.1 PRF construct".
fn any_prf(given: CK_MECHANISM_TYPE) -> Result<TlsPrf> {
    if given == CKM_TLS_PRF { Ok(TlsPrf::Md5Sha1) } else { hash(given).map(TlsPrf::Hash) }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use jeton_names::structs::DATA;
    use jeton_words::hash::Hash;

    use super::super::testing::{HUGE, INVALID, SOME, with};
    use super::*;

    const SHA256: TlsPrf = TlsPrf::Hash(Hash::Sha256);
    const RANDOMS: CK_SSL3_RANDOM_DATA = CK_SSL3_RANDOM_DATA {
        pClientRandom: SOME,
        ulClientRandomLen: 32,
        pServerRandom: SOME,
        ulServerRandomLen: 28,
    };
    fn expected() -> Randoms {
        Randoms { client: [7; 32].into(), server: [7; 28].into() }
    }

    #[test]
    fn the_parameters_of_connection_keys_are_read() {
        let good = CK_TLS12_KEY_MAT_PARAMS {
            ulMacSizeInBits: 256,
            ulKeySizeInBits: 128,
            ulIVSizeInBits: 96,
            bIsExport: CK_FALSE,
            RandomInfo: RANDOMS,
            pReturnedKeyMaterial: null_mut(),
            prfHashMechanism: CKM_SHA256,
        };
        let old = CK_SSL3_KEY_MAT_PARAMS {
            ulMacSizeInBits: 256,
            ulKeySizeInBits: 128,
            ulIVSizeInBits: 96,
            bIsExport: CK_FALSE,
            RandomInfo: RANDOMS,
            pReturnedKeyMaterial: null_mut(),
        };
        let read =
            |prf, iv_len| Ok(Params::TlsKeys { prf, randoms: expected(), mac_len: 32, key_len: 16, iv_len });
        assert!(with(CKM_TLS_KEY_AND_MAC_DERIVE, &old) == read(TlsPrf::Md5Sha1, 12));
        let (whole, safe) = (CKM_TLS12_KEY_AND_MAC_DERIVE, CKM_TLS12_KEY_SAFE_DERIVE);
        assert!(with(whole, &good) == read(SHA256, 12));
        assert!(with(safe, &good) == read(SHA256, 0));
        for ulIVSizeInBits in [7, HUGE] {
            let ignored = CK_TLS12_KEY_MAT_PARAMS { ulIVSizeInBits, ..good };
            assert!(with(safe, &ignored) == read(SHA256, 0));
        }
        let export = CK_TLS12_KEY_MAT_PARAMS { bIsExport: CK_TRUE, ..good };
        assert_eq!(with(whole, &export).err(), INVALID);
    }

    #[test]
    fn the_parameters_of_finished_messages_are_read() {
        let of = |prfHashMechanism, ulMacLength, ulServerOrClient| CK_TLS_MAC_PARAMS {
            prfHashMechanism,
            ulMacLength,
            ulServerOrClient,
        };
        let expected = |prf, len, server| Ok(Params::TlsMac { prf, len, server });
        for id in [CKM_TLS_MAC, CKM_TLS12_MAC] {
            assert!(with(id, &of(CKM_SHA256, 20, 1)) == expected(SHA256, 20, true));
            assert!(with(id, &of(CKM_TLS_PRF, 12, 2)) == expected(TlsPrf::Md5Sha1, 12, false));
            assert_eq!(with(id, &of(CKM_TLS_PRF, 13, 1)).err(), INVALID);
        }
    }

    #[test]
    fn a_version_and_the_parameter_of_the_prf_are_read() {
        for id in [CKM_SSL3_PRE_MASTER_KEY_GEN, CKM_TLS_PRE_MASTER_KEY_GEN] {
            assert!(with(id, &CK_VERSION { major: 3, minor: 1 }) == Ok(Params::Version([3, 1])));
        }
        let (mut out, mut len) = ([0_u8; 8], 8);
        let good = CK_TLS_PRF_PARAMS {
            pSeed: SOME,
            ulSeedLen: 2,
            pLabel: SOME,
            ulLabelLen: 3,
            pOutput: out.as_mut_ptr(),
            pulOutputLen: &raw mut len,
        };
        let (seed, label) = ([7; 2].into(), [7; 3].into());
        assert!(with(CKM_TLS_PRF, &good) == Ok(Params::TlsPrf { seed, label, len: 8 }));
        let mut lens = [0, DATA as CK_ULONG + 1, HUGE];
        for len in &mut lens {
            let wrong = CK_TLS_PRF_PARAMS { pulOutputLen: len, ..good };
            assert_eq!(with(CKM_TLS_PRF, &wrong).err(), INVALID);
        }
        for wrong in [
            CK_TLS_PRF_PARAMS { pOutput: null_mut(), ..good },
            CK_TLS_PRF_PARAMS { pulOutputLen: null_mut(), ..good },
        ] {
            assert_eq!(with(CKM_TLS_PRF, &wrong).err(), INVALID);
        }
    }
}
