//! With each backend, Jeton passes every case, every mechanism that it lists, and every vector.

use std::path::Path;
use std::process::Command;

use cryptoki_sys::{CKF_ENCRYPT, CKF_WRAP};
use jeton_client::{Module, names};

mod support;

/// Cases where PKCS#11 3.2 leaves the choice to the token, or where other modules read a clause in
/// another way. Each entry has the function, the situation, and the answer that real programs need
/// from Jeton. The comment before each group of cases names the clause.
const ANSWERS: [(&str, &str, &str); 55] = [
    // The tables of the mechanisms: "Single-part operations only".
    ("C_SignUpdate", "with CKM_ECDSA", "CKR_OPERATION_NOT_INITIALIZED"),
    ("C_SignUpdate", "with CKM_RSA_X_509", "CKR_OPERATION_NOT_INITIALIZED"),
    ("C_SignUpdate", "with CKM_RSA_PKCS", "CKR_OPERATION_NOT_INITIALIZED"),
    ("C_SignUpdate", "with CKM_RSA_PKCS_PSS", "CKR_OPERATION_NOT_INITIALIZED"),
    ("C_SignUpdate", "with CKM_ML_DSA_EXTERNAL_MU", "CKR_OPERATION_NOT_INITIALIZED"),
    ("C_Sign", "with CKM_ML_DSA_EXTERNAL_MU and 63 bytes", "CKR_DATA_LEN_RANGE"),
    ("C_DigestInit", "with CKM_ML_DSA_EXTERNAL_MU_GEN without a key", "CKR_MECHANISM_PARAM_INVALID"),
    ("C_SignUpdate", "with CKM_HASH_ML_DSA", "CKR_OPERATION_NOT_INITIALIZED"),
    ("C_SignUpdate", "with CKM_HASH_SLH_DSA", "CKR_OPERATION_NOT_INITIALIZED"),
    // "HSS": CKA_HSS_KEYS_REMAINING.
    ("C_Sign", "with CKM_HSS until no one-time key remains", "CKR_KEY_EXHAUSTED"),
    ("C_DecryptUpdate", "with CKM_RSA_PKCS_OAEP", "CKR_OPERATION_NOT_INITIALIZED"),
    ("C_VerifySignatureUpdate", "with CKM_ECDSA", "CKR_OPERATION_NOT_INITIALIZED"),
    // "Common key attributes": CKA_SENSITIVE and CKA_EXTRACTABLE depend on the mechanism or the
    // token.
    ("C_CreateObject", "of a secret key whose value is read later", "CKR_OK"),
    ("C_GenerateKey", "of a secret key whose value is read later", "CKR_ATTRIBUTE_SENSITIVE"),
    ("C_DeriveKey", "by ECDH, and reading the result", "CKR_OK"),
    ("C_DeriveKey", "by HKDF of a sensitive key, and reading the result", "CKR_OK"),
    ("C_DeriveKey", "by encryption with a sensitive key, and reading the result", "CKR_OK"),
    ("C_DeriveKey", "by hashing a sensitive key, and reading the result", "CKR_OK"),
    ("C_DeriveKey", "by concatenation with a sensitive key makes a sensitive key", "CKR_OK"),
    // "Key derivation by data encryption": the data is at least as long as the key.
    ("C_DeriveKey", "with CKM_AES_ECB_ENCRYPT_DATA and too little data", "CKR_DATA_LEN_RANGE"),
    ("C_DeriveKey", "with CKM_AES_CBC_ENCRYPT_DATA and too little data", "CKR_DATA_LEN_RANGE"),
    // CK_MECHANISM_INFO: keys from ulMinKeySize to ulMaxKeySize work.
    ("C_GenerateKeyPair", "of RSA with 1024 bits", "CKR_OK"),
    ("C_GenerateKeyPair", "of RSA with 3092 bits", "CKR_OK"),
    ("C_CreateObject", "of an RSA key with 1024 bits", "CKR_OK"),
    // CK_TOKEN_INFO.
    ("C_GetTokenInfo", "CKF_DUAL_CRYPTO_OPERATIONS agrees with the functions", "CKR_OK"),
    ("C_GetTokenInfo", "CKF_RESTORE_KEY_NOT_NEEDED agrees with the functions", "CKR_OK"),
    ("C_SetOperationState", "of a signature without the key", "CKR_OK"),
    // "It does not have a parameter": programs leave the fields uninitialised.
    ("C_GenerateKey", "with a parameter that the mechanism does not have", "CKR_OK"),
    ("C_SignInit", "with a parameter that the mechanism does not have", "CKR_OK"),
    // C_Login: a NULL PIN is for a protected authentication path.
    ("C_Login", "with a NULL PIN", "CKR_ARGUMENTS_BAD"),
    // "Objects", examples 1 and 5.
    ("C_CreateObject", "of an AES key with CKA_MODULUS", "CKR_TEMPLATE_INCONSISTENT"),
    // "Common key attributes": the default of CKA_PRIVATE depends on the token.
    ("C_CreateObject", "of a session key without a login", "CKR_OK"),
    ("C_GenerateKey", "of a session key without a login", "CKR_OK"),
    ("C_DeriveKey", "of a session key without a login", "CKR_OK"),
    ("C_UnwrapKey", "of a session key without a login", "CKR_OK"),
    // "Common key attributes": CKA_ALLOWED_MECHANISMS.
    ("C_GetAttributeValue", "CKA_ALLOWED_MECHANISMS of a key made without it", "CKR_OK"),
    ("C_EncryptInit", "with a mechanism outside CKA_ALLOWED_MECHANISMS", "CKR_MECHANISM_INVALID"),
    ("C_WrapKey", "with a mechanism outside CKA_ALLOWED_MECHANISMS", "CKR_MECHANISM_INVALID"),
    ("C_UnwrapKey", "with a mechanism outside CKA_ALLOWED_MECHANISMS", "CKR_MECHANISM_INVALID"),
    ("C_DeriveKey", "with a mechanism outside CKA_ALLOWED_MECHANISMS", "CKR_MECHANISM_INVALID"),
    // CK_ECDH1_DERIVE_PARAMS: the functions of SP 800-56A.
    ("C_DeriveKey", "with ECDH and each KDF of SP 800-56A", "CKR_OK"),
    ("C_Sign", "with CKM_AES_GMAC and CK_GCM_PARAMS", "CKR_OK"),
    ("C_SignInit", "with Ed25519 and CK_EDDSA_PARAMS without context", "CKR_OK"),
    ("C_GenerateKeyPair", "with both numbers of CKA_ENCAPSULATE_TEMPLATE", "CKR_OK"),
    ("C_DeriveKey", "an AES key by SHA-256 without CKA_VALUE_LEN", "CKR_TEMPLATE_INCOMPLETE"),
    ("C_CreateObject", "of an AES key with CKA_ENCAPSULATE", "CKR_TEMPLATE_INCONSISTENT"),
    // C_SetOperationState, CKR_ARGUMENTS_BAD.
    ("C_SetOperationState", "without data", "CKR_ARGUMENTS_BAD"),
    // CKR_OPERATION_ACTIVE: an operation that "prevents Cryptoki from activating" another one.
    ("C_GetOperationState", "a saved digest allows the next C_DigestInit", "CKR_OK"),
    // Mechanisms, parameters and functions that a module may lack.
    ("C_Encrypt", "with GCM, a long initialisation vector and long data", "CKR_OK"),
    ("C_Encrypt", "up to the longest message, with OAEP and each hash", "CKR_OK"),
    ("C_Encrypt", "with each mode of 3DES", "CKR_OK"),
    ("C_EncryptMessage", "with each nonce generator", "CKR_OK"),
    ("C_EncryptMessage", "with parameters that do not fit", "CKR_OK"),
    ("C_EncryptMessage", "calls in the wrong order", "CKR_OK"),
    ("C_VerifyRecover", "of each RSA mechanism", "CKR_OK"),
];

#[test]
fn jeton_conforms_with_aws_lc() {
    conforms("aws-lc");
}

#[test]
fn jeton_conforms_with_rustcrypto() {
    conforms("rustcrypto");
}

fn conforms(backend: &str) {
    let Some(module) = support::module() else { return };
    // The legacy mechanisms, such as 3DES, have cases too.
    let said = run(&module, &["--legacy", "--backend", backend]);
    // At least one of the peers has 182 of them. One more is of PKCS#11 3.2, and two are of 3.3.
    for sum in [
        "104 of 104 functions are implemented",
        "185 of 185 mechanisms work, 0 are absent",
        " 0 unexpected results, 127 more with a listed reason",
    ] {
        assert!(said.contains(sum), "{backend}: not {sum}");
    }
    answers(backend, &said, &ANSWERS);
    // PKCS#11 3.2 has no message-based functions for AES-GMAC.
    let fails = |line: &&str| {
        line.contains(", with CKM_") && !line.ends_with(" CKR_OK") && !line.contains("with CKM_AES_GMAC")
    };
    assert_eq!(said.lines().find(fails), None, "{backend}");
}

#[test]
fn every_cipher_of_jeton_has_cases() {
    let Some(path) = support::module() else { return };
    let said = run(&path, &["--legacy", "--only", "with CKM_"]);
    let directory = tempfile::tempdir().expect("a directory");
    let module = Module::load(&path).expect("the module");
    let configuration =
        format!("token-dir = '{}', mechanisms = {{ legacy = true }}", directory.path().display());
    module.initialize(Some(&configuration)).expect("a configuration");
    let slot = module.slots(false).expect("slots")[0];
    for kind in module.mechanisms(slot).expect("mechanisms") {
        let flags = module.mechanism_info(slot, kind).expect("a mechanism").flags;
        let name = names::mechanism(kind);
        // The cases of these encrypt with an RSA key pair.
        if name.starts_with("CKM_RSA_") || flags & (CKF_ENCRYPT | CKF_WRAP) == 0 {
            continue;
        }
        let situation = if flags & CKF_ENCRYPT != 0 { "in odd parts" } else { "of a key" };
        let has = |line: &str| line.contains(situation) && line.contains(&format!("with {name} "));
        assert!(said.lines().any(has), "{name} has no case");
    }
}

/// Runs the program and returns its scorecard. Panics if a check failed.
fn run(module: &Path, arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["--module", "jeton"])
        .args(arguments)
        .env("JETON_MODULE", module)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&run.stdout);
    let wrong: Vec<_> =
        said.lines().filter(|line| line.starts_with("FAIL") || line.starts_with("     ")).collect();
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(wrong.is_empty(), "{arguments:?}: {}", wrong.join("\n"));
    assert!(run.status.success() && said.contains("ok   C_"), "{arguments:?}: {error}");
    said.into_owned()
}

fn answers(backend: &str, said: &str, answers: &[(&str, &str, &str)]) {
    for (function, situation, answer) in answers {
        let line = format!("ok   {function:<26} {situation:<52} {answer}\n");
        let got = said.lines().find(|line| line.contains(function) && line.contains(situation));
        assert!(said.contains(&line), "{backend}: {line}, but {got:?}");
    }
}
