//! Encapsulation: the template of the received key, and encapsulation with the mechanisms that also
//! wrap or derive. The conformance suite has the ciphertexts and secrets of ML-KEM.

use jeton::mechanism::AgreementKdf;

use crate::prelude::*;

fn ecdh(id: M, kdf: Option<AgreementKdf>, peer: &[u8]) -> Mechanism {
    Mechanism { params: Params::Ecdh { kdf, shared: Box::default(), peer: peer.into() }, ..plain(id) }
}

fn dh(peer: &[u8]) -> Mechanism {
    Mechanism { params: Params::Data(peer.into()), ..plain(M::DH_PKCS_DERIVE) }
}

/// The key pairs of the mechanisms that encapsulate and also wrap or derive.
fn mechanisms() -> [(Kind, Mechanism); 7] {
    [
        (Kind::Rsa, plain(M::RSA_PKCS)),
        (Kind::Rsa, oaep(Hash::Sha256, Hash::Sha256, b"")),
        (Kind::P256, ecdh(M::ECDH1_DERIVE, None, &[])),
        (Kind::P256, ecdh(M::ECDH1_COFACTOR_DERIVE, Some(AgreementKdf::X963(Hash::Sha256)), &[])),
        (Kind::P384, ecdh(M::ECDH1_DERIVE, Some(AgreementKdf::OneStep(Hash::Sha256)), &[])),
        (Kind::X25519, ecdh(M::ECDH1_DERIVE, None, &[])),
        (Kind::Dh, dh(&[])),
    ]
}

fn made(
    client: &Client,
    session: SessionHandle,
    kind: Kind,
    public: &Attributes,
    private: &Attributes,
) -> Result<(ObjectHandle, ObjectHandle)> {
    client.generate(session, kind.generator(), &kind.request().and(public), private)
}

fn able() -> (Attributes, Attributes) {
    (none().flag(A::ENCAPSULATE, true), none().flag(A::DECAPSULATE, true))
}

fn aes() -> Attributes {
    none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 16)
}

fn encapsulate(
    client: &Client,
    session: SessionHandle,
    mechanism: &Mechanism,
    public: ObjectHandle,
    template: &Attributes,
) -> Result<(Vec<u8>, ObjectHandle)> {
    let (module, template) = (&client.module, template.template());
    let (len, none) = module.encapsulate_key(session, mechanism, public, &template, Output::Length)?;
    assert_eq!(none, None);
    let mut out = vec![0; len];
    let short = module.encapsulate_key(session, mechanism, public, &template, Output::Buffer(&mut out[1..]));
    assert_eq!(short, Err(Error::BufferTooSmall { needed: len }));
    let (len, key) =
        module.encapsulate_key(session, mechanism, public, &template, Output::Buffer(&mut out))?;
    out.truncate(len);
    Ok((out, key.expect("a key")))
}

/// Receives the key with the function for unwrapping or derivation instead of decapsulation.
fn unwrap_or_derive(
    client: &Client,
    session: SessionHandle,
    mechanism: &Mechanism,
    private: ObjectHandle,
    sealed: &[u8],
    template: &Attributes,
) -> Result<ObjectHandle> {
    match &mechanism.params {
        Params::Ecdh { kdf, .. } => {
            let mechanism = ecdh(mechanism.info.id, *kdf, sealed);
            client.derive_key(session, &mechanism, private, &template.template())
        }
        Params::Data(_) => client.derive_key(session, &dh(sealed), private, &template.template()),
        _ => {
            let template = template.clone().without(A::VALUE_LEN).number(A::CLASS, ObjectClass::SECRET_KEY.0);
            client.unwrap(session, mechanism, private, sealed, &template)
        }
    }
}

/// PKCS#11 3.2, "PKCS #1 RSA OAEP": decapsulation "is exactly equivalent to C_UnwrapKey". "Elliptic
/// Curve Diffie-Hellman key derivation": the ciphertext is the fresh public key.
#[test]
fn a_decapsulated_key_equals_the_encapsulated_one_and_the_unwrapped_or_derived_one() {
    each_user(|client, session| {
        for (kind, mechanism) in mechanisms() {
            let (public, private) = able();
            let private = private.flag(A::UNWRAP, kind == Kind::Rsa).flag(A::DERIVE, kind != Kind::Rsa);
            let (public, private) = made(client, session, kind, &public, &private).expect("a pair");
            let template = aes().and(&shown());
            let (sealed, key) =
                encapsulate(client, session, &mechanism, public, &template).expect("a ciphertext");
            let value = |key: ObjectHandle| client.read(session, key, A::VALUE).expect("a value");
            let opened = client
                .decapsulate_key(session, &mechanism, private, &template.template(), &sealed)
                .expect("a key");
            let again = unwrap_or_derive(client, session, &mechanism, private, &sealed, &template);
            let again = again.expect("a key");
            assert!(value(key) == value(opened) && value(key) == value(again), "{kind:?}");
            assert_eq!(value(key).len(), 16);
            assert_eq!(client.number(session, opened, A::KEY_TYPE), KeyType::AES.0);
        }
    });
}

/// Each of these functions takes a use, and the last one refuses the key.
#[test]
fn a_limit_of_uses_counts_unwrapping_derivation_and_decapsulation() {
    let (client, session) = one_user();
    for (kind, mechanism) in mechanisms() {
        let (public, private) = able();
        let private = private
            .flag(if kind == Kind::Rsa { A::UNWRAP } else { A::DERIVE }, true)
            .flag(A::EXTRACTABLE, false)
            .number(A::JETON_USES_LEFT, 2);
        let (public, private) = made(&client, session, kind, &public, &private).expect("a pair");
        let (sealed, _) = encapsulate(&client, session, &mechanism, public, &aes()).expect("a ciphertext");
        let decapsulate =
            || client.decapsulate_key(session, &mechanism, private, &aes().template(), &sealed).map(drop);
        let otherwise = || unwrap_or_derive(&client, session, &mechanism, private, &sealed, &aes()).map(drop);
        let left = || client.number(session, private, A::JETON_USES_LEFT);
        assert_eq!((otherwise(), left()), (Ok(()), 1), "{kind:?}");
        assert_eq!((decapsulate(), left()), (Ok(()), 0), "{kind:?}");
        assert_eq!((otherwise(), decapsulate()), (Err(Error::KeyExhausted), Err(Error::KeyExhausted)));
    }
}

#[test]
fn encapsulation_needs_its_usages_and_no_public_key_in_the_parameter() {
    let (client, session) = one_user();
    for (kind, mechanism) in mechanisms() {
        let (public, private) = made(&client, session, kind, &none(), &none()).expect("a pair");
        let refused = encapsulate(&client, session, &mechanism, public, &aes());
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        let open = |mechanism: &Mechanism, private, sealed: &[u8]| {
            client.decapsulate_key(session, mechanism, private, &aes().template(), sealed)
        };
        assert_eq!(open(&mechanism, private, &[4; 65]), Err(Error::KeyFunctionNotPermitted));
        let (public, private) = able();
        let (public, private) = made(&client, session, kind, &public, &private).expect("a pair");
        for wrong in [&[][..], &[4; 64], &[0; 65], &[0xff; 256]] {
            let refused = open(&mechanism, private, wrong);
            // Random bytes may be a value of the group, and a wrong padding gives another key.
            let good = kind == Kind::Dh || mechanism.info.id == M::RSA_PKCS;
            assert!(refused.is_err() || good && wrong.len() >= 64, "{kind:?} {refused:?}");
        }
        let peer = match &mechanism.params {
            Params::Ecdh { .. } => ecdh(mechanism.info.id, None, &[4; 65]),
            Params::Data(_) => dh(&[2]),
            _ => {
                // The type of the key does not determine its length.
                let long = none().number(A::KEY_TYPE, KeyType::AES.0);
                let refused = encapsulate(&client, session, &mechanism, public, &long);
                assert_eq!(refused, Err(Error::TemplateIncomplete));
                let huge = none().number(A::VALUE_LEN, 1 << 40);
                assert_eq!(
                    encapsulate(&client, session, &mechanism, public, &huge),
                    Err(Error::KeySizeRange)
                );
                continue;
            }
        };
        assert_eq!(encapsulate(&client, session, &peer, public, &aes()), Err(Error::MechanismParamInvalid));
        assert_eq!(open(&peer, private, &[4; 65]), Err(Error::MechanismParamInvalid));
    }
}

/// Otherwise a user could add `CKA_DECAPSULATE` to a key and read what its template hides.
#[test]
fn decapsulation_follows_the_template_for_unwrapped_or_derived_keys() {
    let (client, session) = one_user();
    for (kind, mechanism) in mechanisms() {
        let id = if kind == Kind::Rsa { A::UNWRAP_TEMPLATE } else { A::DERIVE_TEMPLATE };
        let forced = none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
        let (public, private) = able();
        // An RSA key that opens hybrid forms does not open their heads.
        let private = private.bytes(A::ALLOWED_MECHANISMS, &mechanism.info.id.0.to_le_bytes());
        let (public, private) = (kind.request().and(&public), private.within(id, &forced));
        let pair = client.generate_key_pair(session, &plain(kind.generator()), &public.template(), &private);
        let (public, private) = pair.expect("a pair");
        let (sealed, _) = encapsulate(&client, session, &mechanism, public, &aes()).expect("a ciphertext");
        let open = |template: &Attributes| {
            client.decapsulate_key(session, &mechanism, private, &template.template(), &sealed)
        };
        assert_eq!(open(&aes().and(&shown())), Err(Error::TemplateInconsistent), "{kind:?}");
        let key = open(&aes()).expect("a key");
        assert!(client.flag(session, key, A::SENSITIVE));
        assert!(!client.flag(session, key, A::EXTRACTABLE));
    }
}

#[test]
fn strict_refuses_a_pair_that_encapsulates_and_decrypts() {
    let client = Client::with(DEFAULT, ", policy = { name = 'strict' }");
    let session = client.user();
    let (public, private) = able();
    for (public, private) in
        [(&public, none().flag(A::DECRYPT, true)), (&none().flag(A::ENCRYPT, true), private.clone())]
    {
        assert_eq!(made(&client, session, Kind::Rsa, public, &private), Err(Error::TemplateInconsistent));
    }
    let (public, _) = made(&client, session, Kind::Rsa, &public, &private).expect("a pair");
    let refused = encapsulate(&client, session, &plain(M::RSA_PKCS), public, &aes());
    assert_eq!(refused, Err(Error::MechanismInvalid));
    let (_, key) =
        encapsulate(&client, session, &oaep(Hash::Sha256, Hash::Sha256, b""), public, &aes()).expect("a key");
    assert!(client.flag(session, key, A::SENSITIVE));
}

#[test]
fn a_decapsulated_key_follows_its_template() {
    let (client, session) = one_user();
    let (module, kem, mut sealed) = (&client.module, plain(M::ML_KEM), vec![0; 768]);
    let (public, private) = pair(&client, session, Kind::MlKem512, &none());
    let aes = none().number(A::KEY_TYPE, KeyType::AES.0);
    let short = Output::Buffer(&mut sealed[1..]);
    let refused = module.encapsulate_key(session, &kem, public, &aes.template(), short);
    assert_eq!(refused, Err(Error::BufferTooSmall { needed: 768 }));
    let out = Output::Buffer(&mut sealed);
    let made = module.encapsulate_key(session, &kem, public, &aes.template(), out);
    let open =
        |template: &Attributes| module.decapsulate_key(session, &kem, private, &template.template(), &sealed);
    for key in [made.expect("a key").1.expect("a key"), open(&aes).expect("a key")] {
        assert_eq!(client.number(session, key, A::KEY_TYPE), KeyType::AES.0);
        assert_eq!(client.number(session, key, A::VALUE_LEN), 32);
        for id in [A::LOCAL, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE] {
            assert!(!client.flag(session, key, id), "{id}");
        }
    }
    let before = client.find(session, &none()).len();
    let class = none().number(A::CLASS, ObjectClass::PRIVATE_KEY.0);
    for wrong in [none().number(A::VALUE_LEN, 33), class.number(A::KEY_TYPE, KeyType::RSA.0)] {
        assert_eq!(open(&wrong), Err(Error::TemplateInconsistent));
    }
    assert_eq!(client.find(session, &none()).len(), before);
}
