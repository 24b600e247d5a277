//! Signs with keys of a fresh token of Jeton through rustls.
//!
//! The module reads the path of its token directory from the environment. A process must not change
//! its own environment, so the test starts itself again with other variables.

use std::sync::Arc;

use cryptoki_sys::*;
use jeton_client::key_types::{ED448, ED25519, P256, P384};
use jeton_client::{Access, Attribute, Mechanism, Module, Session, User};
use jeton_peers::{Known, PIN, Sandbox, prepare_token};
use jeton_rustls::{Error, Find, Resolver, SigningKey, Token};
use rustls::SignatureScheme;
use rustls::sign::SigningKey as _;

#[test]
fn keys_of_a_token_sign_for_rustls() {
    let Some(library) = Known::Jeton.library() else {
        return jeton_programs::skip("jeton is not built: cargo test --workspace builds it");
    };
    if jeton_child::role::<()>().is_none() {
        let directory = tempfile::tempdir().expect("the system has a temporary directory");
        let sandbox = Sandbox::fresh(Known::Jeton, directory.path(), None).expect("a directory");
        let mut again = jeton_child::of_test("keys_of_a_token_sign_for_rustls", &());
        assert!(again.envs(sandbox.environment).status().expect("it starts").success());
        return;
    }
    let module = Module::load(library).expect("a module");
    module.initialize(None).expect("it starts");
    assert!(matches!(Token::find(&module, None, None), Err(Error::NoToken { label: None })));
    let access = jeton_peers::TokenAccess::Initialise;
    let (slot, _) = prepare_token(&module, &access).expect("a token");
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    assert!(matches!(Token::find(&module, Some("x"), None), Err(Error::NoToken { label: Some(_) })));
    let wrong = Token::find(&module, None, Some("wrong PIN"));
    assert!(wrong.is_err_and(|error| error.to_string().contains("CKR_PIN_INCORRECT")));
    let token = Token::find(&module, None, Some(PIN)).expect("the PIN is right");

    every_scheme_verifies(&session, &token);
    lookups_name_what_is_missing(&session, &token);
    keys_that_tls_cannot_use_are_refused(&session, &token);
    a_resolver_checks_its_chains(&token);
    threads_share_a_key(&token);
    a_failed_signature_is_reported_and_the_next_one_works(&session, &token);
}

/// Generates a key pair. `more` are attributes of the private key.
fn generate(session: &Session, label: &str, mechanism: u64, parameters: Attribute, more: &[Attribute]) {
    let common = [
        Attribute::flag(CKA_TOKEN, true),
        Attribute::bytes(CKA_LABEL, label.as_bytes()),
        Attribute::bytes(CKA_ID, label.as_bytes()),
    ];
    let public = [&common[..], &[parameters]].concat();
    let private = [&common[..], more].concat();
    session.generate_key_pair(&Mechanism::new(mechanism), &public, &private).expect(label);
}

fn key(token: &Token, label: &str) -> Arc<SigningKey> {
    token.signing_key(&Find::label(label)).expect(label)
}

/// Signs with a scheme and verifies with the provider of rustls. The public key is the last
/// `length` bytes of SubjectPublicKeyInfo.
fn verifies(key: &SigningKey, scheme: SignatureScheme, length: usize) {
    let message = b"server CertificateVerify";
    let signer = key.choose_scheme(&[scheme]).expect("the key has this scheme");
    assert_eq!(signer.scheme(), scheme);
    let signature = signer.sign(message).expect("the token signs");
    let info = key.public_key().expect("the token has the public key");
    let public = &info[info.len() - length..];
    let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    let (_, candidates) = algorithms.mapping.iter().find(|(one, _)| *one == scheme).expect("rustls has it");
    let fits = candidates.iter().any(|one| one.verify_signature(public, message, &signature).is_ok());
    assert!(fits, "{scheme:?}");
}

fn every_scheme_verifies(session: &Session, token: &Token) {
    let set = |set| Attribute::number(CKA_PARAMETER_SET, set);
    let curve = |curve| Attribute::bytes(CKA_EC_PARAMS, curve);
    let bits = Attribute::number(CKA_MODULUS_BITS, 2048);
    generate(session, "rsa", CKM_RSA_PKCS_KEY_PAIR_GEN, bits, &[]);
    generate(session, "p256", CKM_EC_KEY_PAIR_GEN, curve(P256), &[]);
    generate(session, "p384", CKM_EC_KEY_PAIR_GEN, curve(P384), &[]);
    generate(session, "ed25519", CKM_EC_EDWARDS_KEY_PAIR_GEN, curve(ED25519), &[]);
    generate(session, "ml-dsa-65", CKM_ML_DSA_KEY_PAIR_GEN, set(CKP_ML_DSA_65), &[]);
    generate(session, "ml-dsa-87", CKM_ML_DSA_KEY_PAIR_GEN, set(CKP_ML_DSA_87), &[]);
    let rsa = key(token, "rsa");
    assert_eq!(rsa.schemes().len(), 6);
    for scheme in rsa.schemes() {
        verifies(&rsa, scheme, 270);
    }
    verifies(&key(token, "p256"), SignatureScheme::ECDSA_NISTP256_SHA256, 65);
    verifies(&key(token, "p384"), SignatureScheme::ECDSA_NISTP384_SHA384, 97);
    verifies(&key(token, "ed25519"), SignatureScheme::ED25519, 32);
    verifies(&key(token, "ml-dsa-65"), SignatureScheme::ML_DSA_65, 1952);
    verifies(&key(token, "ml-dsa-87"), SignatureScheme::ML_DSA_87, 2592);
    assert!(key(token, "p256").choose_scheme(&rsa.schemes()).is_none());
    assert_eq!(key(token, "ed25519").algorithm(), rustls::SignatureAlgorithm::ED25519);
}

fn lookups_name_what_is_missing(session: &Session, token: &Token) {
    let error = token.signing_key(&Find::label("p256").and_id(*b"p384")).expect_err("no such pair");
    let text = "the token has no private key with the label \"p256\" and the ID 70333834";
    assert_eq!(error.to_string(), text);
    let error = token.certificate(&Find::id(*b"p256")).expect_err("no certificate");
    assert!(matches!(error, Error::NotFound { object: "certificate", .. }));
    for _ in 0..2 {
        generate(session, "twice", CKM_EC_KEY_PAIR_GEN, Attribute::bytes(CKA_EC_PARAMS, P256), &[]);
    }
    let error = token.signing_key(&Find::label("twice")).expect_err("two keys");
    assert!(matches!(error, Error::Several { count: 2, .. }), "{error}");
}

fn keys_that_tls_cannot_use_are_refused(session: &Session, token: &Token) {
    let curve = |curve| Attribute::bytes(CKA_EC_PARAMS, curve);
    generate(session, "ed448", CKM_EC_EDWARDS_KEY_PAIR_GEN, curve(ED448), &[]);
    generate(session, "derive", CKM_EC_KEY_PAIR_GEN, curve(P256), &[Attribute::flag(CKA_SIGN, false)]);
    let always = [Attribute::flag(CKA_PRIVATE, true), Attribute::flag(CKA_ALWAYS_AUTHENTICATE, true)];
    generate(session, "always", CKM_EC_KEY_PAIR_GEN, curve(P256), &always);
    let digest = Attribute::number(CKA_ALLOWED_MECHANISMS, CKM_ECDSA_SHA384);
    generate(session, "other", CKM_EC_KEY_PAIR_GEN, curve(P256), &[digest]);
    for (label, reason) in [
        ("ed448", "its curve is not P-256, P-384, P-521 or Ed25519"),
        ("derive", "its CKA_SIGN is false"),
        ("always", "it wants the PIN for each signature (CKA_ALWAYS_AUTHENTICATE)"),
        ("other", "the token has no mechanism that the key permits and TLS uses"),
    ] {
        let error = token.signing_key(&Find::label(label)).expect_err(label);
        assert_eq!(error.to_string(), format!("the key cannot be used for TLS: {reason}"));
    }
}

fn a_resolver_checks_its_chains(token: &Token) {
    assert!(matches!(Resolver::new([]), Err(Error::NoChain)));
    let p256 = key(token, "p256");
    let error = Resolver::new([(Vec::new(), Arc::clone(&p256))]).expect_err("no certificate");
    assert!(matches!(error, Error::Certificate(rustls::Error::NoCertificatesPresented)), "{error}");
    let error = Resolver::new([(vec![b"0".to_vec().into()], p256)]).expect_err("not a certificate");
    assert!(matches!(error, Error::Certificate(rustls::Error::InvalidCertificate(_))), "{error}");
}

fn threads_share_a_key(token: &Token) {
    let p256 = key(token, "p256");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| verifies(&p256, SignatureScheme::ECDSA_NISTP256_SHA256, 65)));
        }
    });
}

fn a_failed_signature_is_reported_and_the_next_one_works(session: &Session, token: &Token) {
    let ed25519 = key(token, "ed25519");
    session.logout().expect("it is logged in");
    let signer = ed25519.choose_scheme(&[SignatureScheme::ED25519]).expect("a signer");
    let Err(rustls::Error::Other(error)) = signer.sign(b"message") else { panic!("it is logged out") };
    assert!(error.to_string().contains("C_SignInit: CKR_"), "{error}");
    session.login(User::User, Some(PIN)).expect("the PIN is right");
    verifies(&key(token, "ed25519"), SignatureScheme::ED25519, 32);
}
