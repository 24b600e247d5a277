//! The derivations of the mechanism table, with the parameters that show each of their classes.

use std::collections::HashSet;

use jeton::backend::Hash;
use jeton::id::ObjectHandle;
use jeton::mechanism::flow::{Inputs, KeyFlow, Sizes};
use jeton::mechanism::sp800_108::Field;
use jeton::mechanism::tls::{Randoms, TlsPrf};
use jeton::mechanism::{self, Derivation, HkdfSalt, MacFunction, MechanismRow, Params, Shape};

use super::LEN;

/// A way to call a derivation: a row with a parameter.
pub(crate) struct Call {
    pub(crate) derivation: Derivation,
    pub(crate) inputs: Box<dyn Fn(Sizes) -> Inputs>,
    pub(crate) names_key: bool,
    /// Whether the derived key can contain bytes of its keys.
    pub(crate) copies: bool,
    /// Data before and after the key, or the mask.
    pub(crate) data: Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Data {
    None,
    /// One byte, which the attacker varies.
    Varied,
    /// Zeros as long as the base key.
    Zeros,
    /// The varied byte and zeros: a mask of the first byte.
    First,
    /// Zeros, and at the end the varied byte: a mask of the last byte.
    Last,
    /// Zeros for all bytes but the last.
    Short,
    /// The first bit of an extraction.
    Bit(u64),
}

/// Returns the calls of the table that differ. Rows that flow alike at all sizes are one call.
pub(crate) fn calls() -> Vec<Call> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for row in mechanism::all().filter(|row| matches!(row.flow, KeyFlow::Derives(_))) {
        for (params, data) in parameters(row) {
            let mechanism::Action::Derive(derivation) = row.action else { panic!("a derivation") };
            if matches!(derivation, Derivation::PublicKey) {
                continue;
            }
            let inputs = move |sizes: Sizes| {
                let params = match data {
                    Data::Zeros | Data::First | Data::Last => Params::Data(vec![0; sizes.base].into()),
                    Data::Short => Params::Data(vec![0; sizes.base.saturating_sub(1)].into()),
                    _ => params.clone(),
                };
                row.inputs(&params, sizes).expect("a derivation")
            };
            let probe = |base| {
                let sizes = [None, Some(16), Some(base - 1), Some(base)];
                sizes.map(|wanted| inputs(Sizes { base, total: base + 1, wanted }))
            };
            let names_key = names_key(row, data);
            let shape = match derivation {
                Derivation::ConcatenateBaseAndKey
                | Derivation::ConcatenateBaseAndData
                | Derivation::ConcatenateDataAndBase
                | Derivation::XorBaseAndData
                | Derivation::ExtractKeyFromKey => format!("{derivation:?}"),
                _ => String::new(),
            };
            let copies = !shape.is_empty() || derivation == Derivation::Ike1Extended;
            let form = (shape, [16, LEN, LEN + 1].map(probe), names_key, data);
            if known.insert(form) {
                all.push(Call { derivation, inputs: Box::new(inputs), names_key, copies, data });
            }
        }
    }
    all
}

fn names_key(row: &MechanismRow, data: Data) -> bool {
    matches!(row.shape(), Shape::Key)
        || data == Data::Varied && !matches!(row.shape(), Shape::Data | Shape::CbcData)
}

/// Returns parameters of a row that show each of its classes. With [`Data::Varied`] the parameter
/// names a key.
pub(crate) fn parameters(row: &MechanismRow) -> Vec<(Params, Data)> {
    let (key, bytes) = (ObjectHandle(1), || Box::<[u8]>::from([0]));
    let randoms = || Randoms { client: bytes(), server: bytes() };
    let prfs = [MacFunction::Hmac(Hash::Sha256), MacFunction::Hmac(Hash::Sha1), MacFunction::AesCmac];
    let tls = [TlsPrf::Md5Sha1, TlsPrf::Hash(Hash::Sha256)];
    let plain = |params| vec![(params, Data::None)];
    match row.shape() {
        Shape::None => plain(Params::None),
        Shape::Ecdh | Shape::Integer | Shape::CbcData => plain(Params::None),
        Shape::Key => vec![(Params::Key(key), Data::Varied)],
        Shape::Data if row.action == mechanism::Action::Derive(Derivation::XorBaseAndData) => {
            [Data::Zeros, Data::First, Data::Last, Data::Short]
                .map(|data| (Params::Data(bytes()), data))
                .into()
        }
        Shape::Data => vec![(Params::Data(bytes()), Data::Varied)],
        Shape::Bit => [0, 8].map(|bit| (Params::Bit(bit), Data::Bit(bit))).into(),
        Shape::Hkdf => [(true, true), (true, false), (false, true)]
            .into_iter()
            .flat_map(|(extract, expand)| {
                [(HkdfSalt::Null, Data::None), (HkdfSalt::Key(key), Data::Varied)].map(|(salt, data)| {
                    (Params::Hkdf { extract, expand, hash: Hash::Sha256, salt, info: bytes() }, data)
                })
            })
            .collect(),
        Shape::Sp800_108(_) => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |fields| Params::Sp800_108 { prf, fields, iv: Box::default() };
                [
                    (of(vec![Field::Iteration(None)]), Data::None),
                    (of(vec![Field::Bytes(bytes()), Field::Key(key)]), Data::Varied),
                ]
            })
            .collect(),
        Shape::TlsMaster(_) | Shape::Tls12Master(_) => {
            tls.map(|prf| (Params::TlsMaster { prf, randoms: randoms() }, Data::None)).into()
        }
        Shape::Tls12ExtendedMaster(_) => {
            tls.map(|prf| (Params::TlsExtendedMaster { prf, session_hash: bytes() }, Data::None)).into()
        }
        Shape::TlsKeys | Shape::Tls12Keys | Shape::Tls12SafeKeys => tls
            .map(|prf| {
                (Params::TlsKeys { prf, randoms: randoms(), mac_len: 20, key_len: 16, iv_len: 0 }, Data::None)
            })
            .into(),
        Shape::TlsKdf => tls
            .map(|prf| {
                (Params::TlsKdf { prf, label: bytes(), randoms: randoms(), context: None }, Data::None)
            })
            .into(),
        Shape::TlsPrf => plain(Params::TlsPrf { seed: bytes(), label: bytes(), len: 16 }),
        Shape::IkePrf => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |data_as_key, new_key| Params::IkePrf { prf, data_as_key, nonces: bytes(), new_key };
                [
                    (of(true, None), Data::None),
                    (of(false, None), Data::None),
                    (of(false, Some(key)), Data::Varied),
                ]
            })
            .collect(),
        Shape::Ike1Prf => prfs
            .map(|prf| {
                (
                    Params::Ike1Prf { prf, shared: key, previous: None, cookies: bytes(), number: 0 },
                    Data::Varied,
                )
            })
            .into(),
        Shape::Ike1Extended => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |shared| Params::Ike1Extended { prf, shared, extra: Box::default() };
                [(of(None), Data::None), (of(Some(key)), Data::Varied)]
            })
            .collect(),
        Shape::Ike2PrfPlus => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |seed_key| Params::Ike2PrfPlus { prf, seed_key, seed: bytes() };
                [(of(None), Data::None), (of(Some(key)), Data::Varied)]
            })
            .collect(),
        shape => panic!("no parameters for {shape:?}"),
    }
}
