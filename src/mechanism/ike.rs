//! IKE, versions 1 and 2 (PKCS#11 3.2, "IKE Mechanisms").

use super::flow::{Extent, Flow, Inputs, Protection, Sizes, blocks_of, is_block_cipher, message_of};
use super::{Derivation, MacFunction, MechanismRow, Params};
use crate::id::MechanismType as M;

pub(super) const ROWS: &[MechanismRow] = &[
    derives(M::IKE_PRF_DERIVE, Derivation::IkePrf),
    derives(M::IKE1_PRF_DERIVE, Derivation::Ike1Prf),
    derives(M::IKE1_EXTENDED_DERIVE, Derivation::Ike1Extended),
    derives(M::IKE2_PRF_PLUS_DERIVE, Derivation::Ike2PrfPlus),
];

/// Builds a row. It names no key type: the pseudo-random function in the parameter decides which
/// key types fit.
const fn derives(id: M, derivation: Derivation) -> MechanismRow {
    MechanismRow::derives(id, None, (1, 4096), inputs, derivation)
}

/// The standard has no rule for the protection of these keys. One of them can be the start of the
/// base key, so all follow the rule for copies.
fn inputs(params: &Params, sizes: Sizes) -> Inputs {
    let (prf, base, extent) = match params {
        Params::IkePrf { prf, data_as_key: true, .. } if is_block_cipher(*prf) => {
            (*prf, Flow::Invertible, Extent::Fixed)
        }
        Params::IkePrf { prf, data_as_key: true, .. } => (*prf, Flow::Step, Extent::Fixed),
        Params::IkePrf { prf, .. } | Params::Ike1Prf { prf, .. } => {
            (*prf, key_of(*prf, sizes), Extent::Fixed)
        }
        Params::Ike1Extended { prf, shared, extra } => {
            let base = match cut(*prf, shared.is_none() && extra.is_empty(), sizes) {
                Some(flow) => flow,
                None => key_of(*prf, sizes),
            };
            (*prf, base, blocks_of(*prf))
        }
        Params::Ike2PrfPlus { prf, .. } => (*prf, key_of(*prf, sizes), blocks_of(*prf)),
        _ => return Inputs::ONE_WAY,
    };
    let named = message_of(prf);
    Inputs { base, named, extent, protection: Protection::Inherited, ..Inputs::ONE_WAY }
}

/// Returns how a pseudo-random function (PRF) reads its key. RFC 4434, 2, and RFC 4615, 3: if the
/// key does not have 16 bytes, the PRF of it under a key of zeros replaces it.
fn key_of(prf: MacFunction, sizes: Sizes) -> Flow {
    if is_block_cipher(prf) && sizes.base != 16 { Flow::Invertible } else { Flow::OneWay }
}

/// RFC 2409, appendix B: without other input, a shorter key is the start of the base key.
fn cut(prf: MacFunction, alone: bool, sizes: Sizes) -> Option<Flow> {
    let Extent::Blocks(block) = blocks_of(prf) else { return None };
    let wanted = sizes.wanted.filter(|wanted| alone && *wanted <= block.min(sizes.base))?;
    Some(if wanted < sizes.base { Flow::Head } else { Flow::Masked })
}
