//! The parameters of IKE (PKCS#11 3.2, "IKE mechanism parameters").

use cryptoki_sys::{
    CK_BBOOL, CK_IKE_PRF_DERIVE_PARAMS, CK_IKE1_EXTENDED_DERIVE_PARAMS, CK_IKE1_PRF_DERIVE_PARAMS,
    CK_IKE2_PRF_PLUS_DERIVE_PARAMS, CK_OBJECT_HANDLE,
};
use jeton_words::error::{Error, Result, require};
use jeton_words::id::ObjectHandle;
use jeton_words::params::Params;

use super::{Parts, boolean, prf};
use crate::ck_ulong::object;

pub(super) fn ike_prf(given: CK_IKE_PRF_DERIVE_PARAMS, nonces: Parts<2>) -> Result<Params> {
    let (data_as_key, rekey) = (boolean(given.bDataAsKey)?, boolean(given.bRekey)?);
    // "If both are set, CKR_ARGUMENTS_BAD is returned."
    require(!(data_as_key && rekey), Error::ArgumentsBad)?;
    let nonces = nonces.concat().into();
    let new_key = rekey.then(|| object(given.hNewKey));
    Ok(Params::IkePrf { prf: prf(given.prfMechanism)?, data_as_key, nonces, new_key })
}

pub(super) fn ike1_prf(given: CK_IKE1_PRF_DERIVE_PARAMS, cookies: Parts<2>) -> Result<Params> {
    Ok(Params::Ike1Prf {
        prf: prf(given.prfMechanism)?,
        shared: object(given.hKeygxy),
        previous: key(given.bHasPrevKey, given.hPrevKey)?,
        cookies: cookies.concat().into(),
        number: given.keyNumber,
    })
}

pub(super) fn ike1_extended(given: CK_IKE1_EXTENDED_DERIVE_PARAMS, [extra]: Parts<1>) -> Result<Params> {
    let shared = key(given.bHasKeygxy, given.hKeygxy)?;
    Ok(Params::Ike1Extended { prf: prf(given.prfMechanism)?, shared, extra })
}

pub(super) fn ike2_prf_plus(given: CK_IKE2_PRF_PLUS_DERIVE_PARAMS, [seed]: Parts<1>) -> Result<Params> {
    let seed_key = key(given.bHasSeedKey, given.hSeedKey)?;
    Ok(Params::Ike2PrfPlus { prf: prf(given.prfMechanism)?, seed_key, seed })
}

/// Returns the handle, or `None` if the struct says that there is no key.
fn key(present: CK_BBOOL, handle: CK_OBJECT_HANDLE) -> Result<Option<ObjectHandle>> {
    Ok(boolean(present)?.then(|| object(handle)))
}

#[cfg(test)]
mod tests {
    use cryptoki_sys::{CK_FALSE, CK_TRUE, CKM_IKE_PRF_DERIVE, CKM_SHA256_HMAC};
    use jeton_words::hash::Hash;
    use jeton_words::shape::MacFunction;

    use super::super::testing::{SOME, with};
    use super::*;

    const SHA256: MacFunction = MacFunction::Hmac(Hash::Sha256);

    #[test]
    fn ike_prf_has_nonces_and_perhaps_a_new_key() {
        let good = CK_IKE_PRF_DERIVE_PARAMS {
            prfMechanism: CKM_SHA256_HMAC,
            bDataAsKey: CK_FALSE,
            bRekey: CK_TRUE,
            pNi: SOME,
            ulNiLen: 2,
            pNr: SOME,
            ulNrLen: 3,
            hNewKey: 9,
        };
        let id = CKM_IKE_PRF_DERIVE;
        let nonces: Box<[u8]> = [7; 5].into();
        let new_key = Some(object(9));
        let expected = Params::IkePrf { prf: SHA256, data_as_key: false, nonces: nonces.clone(), new_key };
        assert!(with(id, &good) == Ok(expected));
        let first = CK_IKE_PRF_DERIVE_PARAMS { bDataAsKey: CK_TRUE, bRekey: CK_FALSE, ..good };
        let expected = Params::IkePrf { prf: SHA256, data_as_key: true, nonces, new_key: None };
        assert!(with(id, &first) == Ok(expected));
        let both = CK_IKE_PRF_DERIVE_PARAMS { bDataAsKey: CK_TRUE, ..good };
        assert_eq!(with(id, &both).err(), Some(Error::ArgumentsBad));
    }
}
