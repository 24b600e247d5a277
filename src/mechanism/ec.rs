//! EC key pairs, ECDSA, EdDSA, ECDH, and key wrapping with ECDH (PKCS#11 3.2, "Elliptic Curve").

use super::flow::{Extent, Inputs, KeyFlow, Sizes, Wrapping};
use super::{Action, Asymmetric, Derivation, MechanismRow, Params, PointForm, Primitive, Wraps};
use crate::backend::{Hash, Scheme};
use crate::id::mechanism_flag::{
    DECAPSULATE, EC_CURVENAME, EC_F_P, EC_OID, EC_UNCOMPRESS, ENCAPSULATE, UNWRAP, WRAP,
};
use crate::id::{KeyType, MechanismType as M};

/// Sizes of a curve's order in bits.
const BITS: (u64, u64) = (224, 521);
/// Sizes of the field of Edwards and Montgomery curves in bits (PKCS#11 3.2, "EC mechanism key
/// sizes").
const FIELD_BITS: (u64, u64) = (255, 448);
/// The fields, the forms of `CKA_EC_PARAMS` and those of points that every mechanism accepts.
const CURVES: u64 = EC_F_P | EC_OID | EC_CURVENAME | EC_UNCOMPRESS;

pub(super) const ROWS: &[MechanismRow] = &[
    pairs(M::EC_KEY_PAIR_GEN, KeyType::EC, BITS),
    MechanismRow::generates(
        Action::GeneratePairFromExtraBits,
        M::EC_KEY_PAIR_GEN_W_EXTRA_BITS,
        KeyType::EC,
        BITS,
    )
    .also(CURVES),
    ecdsa(M::ECDSA, None),
    ecdsa(M::ECDSA_SHA1, Some(Hash::Sha1)),
    ecdsa(M::ECDSA_SHA224, Some(Hash::Sha224)),
    ecdsa(M::ECDSA_SHA256, Some(Hash::Sha256)),
    ecdsa(M::ECDSA_SHA384, Some(Hash::Sha384)),
    ecdsa(M::ECDSA_SHA512, Some(Hash::Sha512)),
    ecdsa(M::ECDSA_SHA3_224, Some(Hash::Sha3_224)),
    ecdsa(M::ECDSA_SHA3_256, Some(Hash::Sha3_256)),
    ecdsa(M::ECDSA_SHA3_384, Some(Hash::Sha3_384)),
    ecdsa(M::ECDSA_SHA3_512, Some(Hash::Sha3_512)),
    ecdh(M::ECDH1_DERIVE),
    ecdh(M::ECDH1_COFACTOR_DERIVE),
    pairs(M::EC_MONTGOMERY_KEY_PAIR_GEN, KeyType::EC_MONTGOMERY, FIELD_BITS),
    pairs(M::EC_EDWARDS_KEY_PAIR_GEN, KeyType::EC_EDWARDS, FIELD_BITS),
    MechanismRow::signs(M::EDDSA, KeyType::EC_EDWARDS, FIELD_BITS, Action::Sign(Primitive::Eddsa, None))
        .also(CURVES),
    // This mechanism also accepts keys of Montgomery curves.
    MechanismRow {
        other_key_type: Some(KeyType::EC_MONTGOMERY),
        ..wraps(M::ECDH_AES_KEY_WRAP, KeyType::EC, (224, 521), PointForm::Bare)
    },
    wraps(M::ECDH_COF_AES_KEY_WRAP, KeyType::EC, (224, 521), PointForm::Octets),
    wraps(M::ECDH_X_AES_KEY_WRAP, KeyType::EC_MONTGOMERY, (255, 448), PointForm::Bare),
];

const fn pairs(id: M, key_type: KeyType, sizes: (u64, u64)) -> MechanismRow {
    MechanismRow::generates(Action::GeneratePair, id, key_type, sizes).also(CURVES)
}

const fn ecdsa(id: M, hash: Option<Hash>) -> MechanismRow {
    let action = Action::Sign(Primitive::Digest(&Scheme::Ecdsa), hash);
    MechanismRow::signs(id, KeyType::EC, BITS, action).also(CURVES)
}

/// Builds a row. Both ECDH mechanisms do the same, because the curves of ECDSA have the cofactor 1,
/// and X25519 and X448 clear the cofactor. Both also accept keys of Montgomery curves.
const fn ecdh(id: M) -> MechanismRow {
    let row = MechanismRow::derives(id, Some(KeyType::EC), BITS, agrees, Derivation::Ecdh);
    let row = row.also(CURVES | ENCAPSULATE | DECAPSULATE);
    MechanismRow { other_key_type: Some(KeyType::EC_MONTGOMERY), ..row }
}

/// Without a KDF, a shorter key gets the last bytes of the shared secret.
fn agrees(params: &Params, _: Sizes) -> Inputs {
    let extent = match params {
        Params::Ecdh { kdf: Some(kdf), .. } => Extent::Blocks(kdf.hash().len()),
        _ => Extent::Fixed,
    };
    Inputs { extent, ..Inputs::ONE_WAY }
}

/// Builds a row. The sizes are those of the curve in bits.
const fn wraps(id: M, key_type: KeyType, sizes: (u64, u64), form: PointForm) -> MechanismRow {
    MechanismRow {
        id,
        flags: WRAP | UNWRAP | CURVES,
        sizes,
        key_type: Some(key_type),
        wraps: Wraps::Any,
        flow: KeyFlow::Wraps(Wrapping::Hybrid),
        action: Action::Encrypt(Asymmetric::EcdhAesWrap(form)),
        ..MechanismRow::BASE
    }
}
