//! The mechanism table, with one row per mechanism and one file per family. A row gives the
//! flags, the key sizes, the key types and the computation of its mechanism; the words have its
//! number and the form of its parameter. `row.rs` defines the columns. `scheme.rs` converts a row
//! and a parameter into the scheme that a backend computes.

use jeton_words::mechanism::{self as words, MECHANISMS};

use crate::id::MechanismType;

mod aes;
mod chacha20;
mod composite;
pub mod curve;
mod derive;
mod des3;
mod dh;
mod digest;
mod ec;
pub(crate) mod field;
pub mod flow;
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
pub use jeton_words::mechanism::{Mechanism, MechanismWord};
pub use jeton_words::params::{AgreementKdf, HkdfSalt, MuKey, Params};
pub use jeton_words::shape::{KeyExchange, MacFunction, Shape};
pub use row::{Action, Asymmetric, Derivation, MechanismRow, PointForm, Primitive, Standing, Wraps};

/// The rows of each family. The order inside a family has no meaning.
const FAMILIES: &[&[MechanismRow]] = &[
    rsa::ROWS,
    ec::ROWS,
    ml_dsa::ROWS,
    composite::ROWS,
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
];

/// Returns every row of the table.
pub fn all() -> impl Iterator<Item = &'static MechanismRow> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Returns the mechanism with this number.
pub fn find(id: MechanismType) -> Option<&'static MechanismRow> {
    words::find(id).map(row_of)
}

/// Returns the row of a mechanism.
#[inline]
pub fn row_of(mechanism: &MechanismWord) -> &'static MechanismRow {
    ROWS[mechanism.index]
}

/// The rows in the order of the words. Each word has one row, and each row says how its uses take
/// the bytes of keys.
static ROWS: [&MechanismRow; MECHANISMS.len()] = {
    let (mut rows, mut family) = ([&MechanismRow::BASE; MECHANISMS.len()], 0);
    while family < FAMILIES.len() {
        let mut i = 0;
        while i < FAMILIES[family].len() {
            let row = &FAMILIES[family][i];
            row.check_flow();
            let index = row.word().index;
            assert!(rows[index].is_base(), "a mechanism has two rows");
            rows[index] = row;
            i += 1;
        }
        family += 1;
    }
    let mut index = 0;
    while index < rows.len() {
        assert!(!rows[index].is_base(), "a mechanism has no row");
        index += 1;
    }
    rows
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_and_a_sensible_size_range() {
        for mechanism in all() {
            assert!(mechanism.id.name().is_some());
            assert!(mechanism.sizes.0 <= mechanism.sizes.1, "{}", mechanism.id);
        }
    }
}
