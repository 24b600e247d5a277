//! TLS 1.0 to 1.2 (PKCS#11 3.2, "SSL", "TLS 1.2 Mechanisms"). The standard no longer describes the
//! `CKM_TLS_*` mechanisms of version 2.20. They are the mechanisms of SSL 3.0 with the
//! pseudo-random function of TLS 1.0 and 1.1 (RFC 2246, 5).

use super::flow::{Extent, Flow, Inputs, KeyFlow, Output, Protection, Sizes};
use super::row::{SIGNS, exchange_of};
use super::{Action, Derivation, MechanismRow, Params};
use crate::id::mechanism_flag::{SIGN, VERIFY};
use crate::id::{KeyType, MechanismType as M};

pub use jeton_words::tls::{Randoms, TlsPrf};

/// The only size in bytes of a master secret and of a pre-master secret with a version.
const MASTER: (u64, u64) = (48, 48);
const ANY: (u64, u64) = (1, 4096);

pub(super) const ROWS: &[MechanismRow] = &[
    generates(M::SSL3_PRE_MASTER_KEY_GEN),
    generates(M::TLS_PRE_MASTER_KEY_GEN),
    master(M::TLS_MASTER_KEY_DERIVE),
    master(M::TLS_MASTER_KEY_DERIVE_DH),
    derives(M::TLS_KEY_AND_MAC_DERIVE, MASTER, Derivation::TlsKeys),
    derives(M::TLS_PRF, ANY, Derivation::TlsPrf),
    master(M::TLS12_MASTER_KEY_DERIVE),
    master(M::TLS12_MASTER_KEY_DERIVE_DH),
    master(M::TLS12_EXTENDED_MASTER_KEY_DERIVE),
    master(M::TLS12_EXTENDED_MASTER_KEY_DERIVE_DH),
    derives(M::TLS12_KEY_AND_MAC_DERIVE, MASTER, Derivation::TlsKeys),
    derives(M::TLS12_KEY_SAFE_DERIVE, MASTER, Derivation::TlsKeys),
    derives(M::TLS_KDF, ANY, Derivation::TlsKdf),
    derives(M::TLS12_KDF, ANY, Derivation::TlsKdf),
    signs(M::TLS_MAC, SIGNS),
    signs(M::TLS12_MAC, SIGNS),
    signs(M::TLS_PRF_GENERAL, SIGN | VERIFY),
];

const fn derives(id: M, sizes: (u64, u64), derivation: Derivation) -> MechanismRow {
    MechanismRow::derives(id, Some(KeyType::GENERIC_SECRET), sizes, inputs, derivation)
}

const fn master(id: M) -> MechanismRow {
    derives(id, MASTER, Derivation::TlsMaster(exchange_of(id)))
}

const fn generates(id: M) -> MechanismRow {
    MechanismRow::generates(Action::GeneratePreMaster, id, KeyType::GENERIC_SECRET, MASTER)
}

const fn signs(id: M, flags: u64) -> MechanismRow {
    let row = MechanismRow::codes(id, KeyType::GENERIC_SECRET, ANY);
    MechanismRow { flags, flow: KeyFlow::Signs(Flow::Halves), ..row }
}

/// The pseudo-random function of TLS 1.0 reads the halves of its key apart (RFC 2246, 5).
fn inputs(params: &Params, _: Sizes) -> Inputs {
    let (prf, extent, output, protection) = match params {
        Params::TlsMaster { prf, .. } | Params::TlsExtendedMaster { prf, .. } => {
            (*prf, Extent::Fixed, Output::Key, Protection::Default)
        }
        // The caller reads the initialisation vectors, and chooses where each key starts.
        Params::TlsKeys { prf, iv_len: 0, .. } => (*prf, Extent::Window, Output::Key, Protection::Default),
        Params::TlsKeys { prf, .. } => (*prf, Extent::Window, Output::Visible, Protection::Default),
        // "Generic Key Derivation using the TLS PRF": the derived key is protected as its base key.
        Params::TlsKdf { prf, .. } => (*prf, blocks_of(*prf), Output::Key, Protection::Inherited),
        _ => (TlsPrf::Md5Sha1, blocks_of(TlsPrf::Md5Sha1), Output::Visible, Protection::Chosen),
    };
    let base = if prf == TlsPrf::Md5Sha1 { Flow::Halves } else { Flow::OneWay };
    Inputs { base, extent, output, protection, ..Inputs::ONE_WAY }
}

fn blocks_of(prf: TlsPrf) -> Extent {
    match prf {
        TlsPrf::Md5Sha1 => Extent::Blocks(16),
        TlsPrf::Hash(hash) => Extent::Blocks(hash.len()),
    }
}
