//! Stateful hash-based signatures (SP 800-208): HSS and LMS (RFC 8554), XMSS and XMSS^MT
//! (RFC 8391). Written once for every library, over its hash functions.
//!
//! No crate is fit: `lms-signature` has one hash and one level, and `hbs-lms` and `xmss` have
//! pre-releases only.

mod lms;
mod lms_private;
mod node;
mod xmss;

pub use lms::Public as HssPublic;
pub use lms_private::{HssType, Private as HssPrivate, uses};
pub use xmss::{Family, Public as XmssPublic};

#[cfg(test)]
mod tests {
    use jeton_vectors::{Miss, Operation, PublicKey, Scheme, sets};

    use super::*;
    use crate::error::{Error, Result};
    use crate::testing::Crates;

    fn verify(family: &str, key: &[u8], message: &[u8], signature: &[u8]) -> Result<()> {
        match family {
            "HSS" => HssPublic::parse(key)?.verify(&Crates, message, signature),
            "XMSS" => XmssPublic::parse(Family::Xmss, key)?.verify(&Crates, message, signature),
            "XMSSMT" => XmssPublic::parse(Family::XmssMt, key)?.verify(&Crates, message, signature),
            other => panic!("another family: {other}"),
        }
    }

    /// Samples of ACVP for LMS, and known answers of liboqs for HSS, XMSS and XMSS^MT.
    #[test]
    fn published_vectors_have_the_expected_results() {
        let set = sets().into_iter().find(|set| set.name == "Stateful").expect("the set");
        let carry_out = |operation: &Operation| {
            let Operation::Verify { key, scheme: Scheme::Stateful { family }, message, signature } =
                operation
            else {
                panic!("another operation");
            };
            let PublicKey::Stateful { key, .. } = key else { panic!("a key") };
            verify(family, key, message, signature).map_err(Miss::from)
        };
        let tally = set.run(carry_out, |error: &Error| Ok(format!("{error:?}")));
        assert!(tally.executed > 0 && tally.deviations.is_empty(), "{:#?}", tally.deviations);
    }
}
