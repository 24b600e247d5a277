//! Conformance cases for any PKCS#11 module.

fn main() {}
