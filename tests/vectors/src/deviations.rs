//! The vectors for which Jeton rightly has another result than the set expects. Every other
//! deviation fails the tests and the conformance run.

/// The name of each set, and the numbers of its tests.
const KNOWN: &[(&str, &[usize])] = &[
    ("EcdsaSecp256r1Sha256P1363", &[121, 123, 125, 127, 129, 131, 133, 135, 145, 147, 149, 151]),
    ("EcdsaSecp256r1Sha512P1363", &[191, 193, 195, 197, 199, 201, 203, 205, 215, 217, 219, 221]),
    ("EcdsaSecp384r1Sha384P1363", &[153, 155, 157, 159, 161, 163, 173, 175, 177, 179]),
    ("EcdsaSecp384r1Sha512P1363", &[191, 193, 195, 197, 199, 201, 211, 213, 215, 217]),
    ("EcdsaSecp521r1Sha512P1363", &[190, 192, 194, 196, 198, 200, 210, 212, 214, 216]),
    ("EcdsaSecp224r1Sha224P1363", &[93, 95, 97, 99, 101, 103, 105, 115, 117, 119, 121]),
    ("EcdsaSecp224r1Sha256P1363", &[122, 124, 126, 128, 130, 132, 134, 144, 146, 148, 150]),
    ("EcdsaSecp224r1Sha512P1363", &[191, 193, 195, 197, 199, 201, 203, 213, 215, 217, 219]),
    ("EcdsaSecp256k1Sha256P1363", &[121, 123, 125, 127, 129, 131, 141, 143, 145, 147]),
    ("EcdsaSecp256k1Sha512P1363", &[191, 193, 195, 197, 199, 201, 211, 213, 215, 217]),
    ("EcdsaSecp224r1Shake128P1363", &[128, 130, 132, 134, 136, 138, 140, 150, 152, 154, 156]),
    ("EcdsaSecp256k1Shake128P1363", &[127, 129, 131, 133, 135, 137, 147, 149, 151, 153]),
    ("EcdsaSecp256k1Shake256P1363", &[197, 199, 201, 203, 205, 207, 217, 219, 221, 223]),
    ("EcdsaSecp256r1Shake128P1363", &[127, 129, 131, 133, 135, 137, 139, 141, 151, 153, 155, 157]),
    ("EcdsaSecp384r1Shake256P1363", &[197, 199, 201, 203, 205, 207, 217, 219, 221, 223]),
    ("EcdsaSecp521r1Shake256P1363", &[196, 198, 200, 202, 204, 206, 216, 218, 220, 222]),
    ("EcdsaBrainpool224r1Sha224P1363", &[93, 95, 97, 99, 101, 103, 113, 115, 117, 119]),
    ("EcdsaBrainpool256r1Sha256P1363", &[121, 123, 125, 127, 129, 131, 141, 143, 145, 147]),
    ("EcdsaBrainpool320r1Sha384P1363", &[154, 156, 158, 160, 162, 164, 174, 176, 178, 180]),
    ("EcdsaBrainpool384r1Sha384P1363", &[153, 155, 157, 159, 161, 163, 173, 175, 177, 179]),
    ("EcdsaBrainpool512r1Sha512P1363", &[190, 192, 194, 196, 198, 200, 202, 212, 214, 216, 218]),
];

const SHORT_HALVES: &str = "P1363 requires the full length; PKCS#11 3.2, 6.3.1 lets verification accept an r \
    and s that are shorter but equally long";

/// Returns the reason why Jeton's result of a test differs from the set, or `None` if it must not
/// differ.
pub fn deviation(set: &str, test: usize) -> Option<&'static str> {
    let known = KNOWN.iter().any(|(known, tests)| *known == set && tests.contains(&test));
    known.then_some(SHORT_HALVES)
}
