//! The rules of commit eb67fe51, on which the explorer finds the attacks of the second review.

use jeton::mechanism::flow::{Flow, Inputs, Protection, Sizes};
use jeton::mechanism::rule::{self, Demand, KeyState, Makeup, Policy};

/// Decides on a derivation. Only the base key counted, except in the mechanisms that inherit.
pub(crate) fn derive(inputs: &Inputs, keys: &[KeyState], policy: Policy, sizes: Sizes) -> Option<Demand> {
    let mechanisms_off = inputs.copies() && inputs.base != Flow::Head && policy == Policy::Strict;
    if mechanisms_off {
        return None;
    }
    let applied = match inputs.protection {
        Protection::Inherited => keys,
        _ => &keys[..1],
    };
    let inherits = inputs.protection == Protection::Inherited || policy == Policy::Strict;
    let any = |is: &dyn Fn(&KeyState) -> bool| inherits && applied.iter().any(is);
    let hidden: Vec<_> = keys.iter().filter(|key| inputs.copies() && key.is_unreadable()).collect();
    let joined = hidden.iter().any(|key| key.makeup == Makeup::Joined);
    let joins = inputs.base == Flow::Joined || inputs.base == Flow::Part && sizes.total > sizes.base;
    let len = sizes.wanted.unwrap_or(sizes.base);
    if !hidden.is_empty() && len < if joins { sizes.total } else { sizes.base } {
        let half = inputs.base == Flow::Head || 2 * len >= sizes.base;
        if sizes.wanted.is_some() && (len < rule::SHORTEST || !half || joins || joined) {
            return None;
        }
    }
    Some(Demand {
        sensitive: any(&|key| key.sensitive),
        unextractable: any(&|key| !key.extractable),
        with_trusted: hidden.iter().any(|key| key.with_trusted),
        makeup: if joined || joins && !hidden.is_empty() { Makeup::Joined } else { Makeup::Whole },
    })
}
