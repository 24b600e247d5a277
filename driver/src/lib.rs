//! A PKCS#11 client of any module, and what the tool `jeton` does with it.
