//! Checks that both crypto libraries verify the signature of a row. So a library that did not make
//! the signature verifies it too.

use jeton::backend::{Provider, PublicParts};

use crate::scheme::{Kind, Scheme};

/// Panics unless every library accepts the signature and rejects it for another input. A row that
/// is fast and wrong must not enter a table.
pub fn verify(row: &str, public: &PublicParts, scheme: Scheme, kind: Kind, signature: &[u8]) {
    let input = scheme.input(kind);
    let mut other = input.to_vec();
    other[0] ^= 1;
    for provider in Provider::ALL {
        let name = provider.name;
        let key = provider.keys.public(public).unwrap_or_else(|error| panic!("{row}, {name}: {error:?}"));
        let mut verifier =
            key.verifier(&scheme.of_backend()).unwrap_or_else(|error| panic!("{row}, {name}: {error:?}"));
        if let Err(error) = verifier.verify(input, signature) {
            panic!("{row}: {name} rejects its {scheme:?} signature: {error:?}");
        }
        assert!(verifier.verify(&other, signature).is_err(), "{name} accepts a signature of another input");
    }
}
