//! The mechanism table, with one row per mechanism and one file per family. A row gives the
//! flags, the key sizes, the key types, the form of the parameter and the computation of its
//! mechanism. `row.rs` defines the columns, and `params.rs` defines the parameters. `scheme.rs`
//! converts a row and a parameter into the scheme that a backend computes.

use crate::id::MechanismType;

mod aes;
mod chacha20;
pub mod curve;
mod derive;
mod des3;
mod dh;
mod digest;
mod dsa;
mod ec;
pub mod flow;
mod given;
pub mod hmac;
mod ike;
pub mod message;
mod ml_dsa;
mod ml_kem;
mod otp;
pub mod password;
mod row;
mod rsa;
pub mod rule;
pub mod scheme;
mod slh_dsa;
pub mod sp800_108;
mod stateful;
pub mod tls;

pub use flow::KeyFlow;
pub use given::Mechanism;
pub use jeton_words::params::{AgreementKdf, HkdfSalt, Params};
pub use jeton_words::shape::{MacFunction, Shape};
pub use row::{
    Action, Asymmetric, Derivation, KeyExchange, MechanismRow, PointForm, Primitive, Standing, Wraps,
};

/// The rows of each family. The order inside a family has no meaning.
const FAMILIES: &[&[MechanismRow]] = &[
    rsa::ROWS,
    ec::ROWS,
    ml_dsa::ROWS,
    slh_dsa::ROWS,
    stateful::ROWS,
    ml_kem::ROWS,
    aes::ROWS,
    chacha20::ROWS,
    hmac::ROWS,
    derive::ROWS,
    digest::ROWS,
    dh::ROWS,
    otp::ROWS,
    sp800_108::ROWS,
    password::ROWS,
    tls::ROWS,
    ike::ROWS,
    des3::ROWS,
    dsa::ROWS,
];

/// Returns every row of the table.
pub fn all() -> impl Iterator<Item = &'static MechanismRow> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Returns the mechanism with this number.
pub fn find(id: MechanismType) -> Option<&'static MechanismRow> {
    match usize::try_from(id.0).ok().and_then(|number| BY_NUMBER.get(number)) {
        Some(row) => *row,
        None => all().find(|row| row.id == id),
    }
}

/// The length of [`BY_NUMBER`]. `find` must be fast, because every `Init` function looks up a
/// mechanism. For `COMMON` and greater numbers, such as vendor numbers, `find` searches all rows.
const COMMON: usize = 0x4100;

/// The rows by number. Each row says how its uses take the bytes of keys.
static BY_NUMBER: [Option<&MechanismRow>; COMMON] = {
    let (mut rows, mut family) = ([None; COMMON], 0);
    while family < FAMILIES.len() {
        let mut i = 0;
        while i < FAMILIES[family].len() {
            let row = &FAMILIES[family][i];
            row.check_flow();
            if row.id.0 < COMMON as u64 {
                rows[row.id.0 as usize] = Some(row);
            }
            i += 1;
        }
        family += 1;
    }
    rows
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_has_two_rows() {
        let mut ids: Vec<_> = all().map(|mechanism| mechanism.id).collect();
        let rows = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rows);
    }

    #[test]
    fn every_row_has_a_name_and_a_sensible_size_range() {
        for mechanism in all() {
            assert!(mechanism.id.name().is_some());
            assert!(mechanism.sizes.0 <= mechanism.sizes.1, "{}", mechanism.id);
        }
    }
}
