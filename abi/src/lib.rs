//! `libjeton_pkcs11.so`: the C interface of PKCS#11 over the core's `Module`.
