//! The message representative of ML-DSA, which the token or the caller computes (PKCS#11 3.3).

use jeton::mechanism::MuKey;
use jeton_secret::Secret;

use crate::prelude::*;

pub const GENERATION: M = M::ML_DSA_EXTERNAL_MU_GEN;

const CONTEXT: &[u8] = b"a context";
const MESSAGE: &[u8] = b"a message of several parts";

fn of_mu(key: MuKey, context: &[u8]) -> Mechanism {
    Mechanism { params: Params::MuGen { key, context: context.into() }, ..plain(GENERATION) }
}

fn of_key(key: ObjectHandle) -> Mechanism {
    of_mu(MuKey::Object(key), CONTEXT)
}

/// Computes the representative in a single part.
fn mu(client: &Client, session: SessionHandle, mechanism: &Mechanism) -> Result<Vec<u8>> {
    client.digest_init(session, mechanism)?;
    let mut out = vec![0; client.digest(session, MESSAGE, Output::Length)?];
    let len = client.digest(session, MESSAGE, Output::Buffer(&mut out))?;
    assert_eq!(len, 64);
    Ok(out)
}

/// Computes it in two parts.
fn mu_in_parts(client: &Client, session: SessionHandle, mechanism: &Mechanism) -> Result<Vec<u8>> {
    let (one, two) = MESSAGE.split_at(9);
    client.digest_init(session, mechanism)?;
    client.digest_update(session, one)?;
    client.digest_update(session, two)?;
    let mut out = vec![0; 64];
    client.digest_final(session, Output::Buffer(&mut out))?;
    Ok(out)
}

/// Returns `tr`, the hash of a public key, as a caller computes it.
fn tr(client: &Client, session: SessionHandle, provider: &Provider, public: ObjectHandle) -> MuKey {
    let value = client.read(session, public, A::VALUE).expect("a public key");
    let mut tr = [0; 64];
    provider.digest.hash(Hash::Shake256, &value, &mut tr).expect("a digest");
    MuKey::Hash(tr.into())
}

/// The representative of each source, in one part or in several, also repeatedly, is the one that
/// `CKM_ML_DSA` signs: each mechanism verifies the signatures of the other.
#[test]
fn a_signature_of_the_representative_is_a_signature_of_the_message() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for kind in [Kind::MlDsa44, Kind::MlDsa65, Kind::MlDsa87] {
            let (public, private) = pair(&client, session, kind, &none());
            let hash = tr(&client, session, provider, public);
            let sources =
                [MuKey::Object(public), MuKey::Object(private), hash].map(|key| of_mu(key, CONTEXT));
            let expected = mu(&client, session, &sources[0]).expect("a representative");
            for source in sources.iter().chain(&sources) {
                assert_eq!(mu(&client, session, source).as_ref(), Ok(&expected));
                assert_eq!(mu_in_parts(&client, session, source).as_ref(), Ok(&expected));
                assert_eq!(mu(&client, session, source).as_ref(), Ok(&expected));
            }
            let params = Params::SignContext { deterministic: true, context: CONTEXT.into(), hash: None };
            let whole = Mechanism { params, ..plain(M::ML_DSA) };
            let external = plain(M::ML_DSA_EXTERNAL_MU);
            let signature = client.sign(session, &external, private, &expected).expect("a signature");
            assert_eq!(client.verify(session, &whole, public, MESSAGE, &signature), Ok(()));
            let signature = client.sign(session, &whole, private, MESSAGE).expect("a signature");
            assert_eq!(client.verify(session, &external, public, &expected, &signature), Ok(()));
            // Another context and the empty context have other representatives.
            for context in [&b"another context"[..], b""] {
                let other = mu(&client, session, &of_mu(MuKey::Object(public), context)).expect("64 bytes");
                let outcome = client.verify(session, &external, public, &other, &signature);
                assert_eq!(outcome, Err(Error::SignatureInvalid));
            }
        }
    });
}

#[test]
fn a_representative_has_64_bytes_and_comes_in_one_part() {
    each_user(|client, session| {
        let (public, private) = pair(client, session, Kind::MlDsa44, &none());
        let external = plain(M::ML_DSA_EXTERNAL_MU);
        for len in [0, 63, 65] {
            let data = vec![7; len];
            assert_eq!(client.sign(session, &external, private, &data), Err(Error::DataLenRange));
            let outcome = client.verify(session, &external, public, &data, &[0; 2420]);
            assert_eq!(outcome, Err(Error::DataLenRange));
        }
        assert_eq!(client.sign_init(session, &external, private), Ok(()));
        assert_eq!(client.sign_update(session, &[7; 64]), Err(Error::OperationNotInitialized));
    });
}

/// An empty message has a representative, also if the message comes in no part.
#[test]
fn a_message_without_bytes_has_a_representative() {
    each_user(|client, session| {
        let (public, _) = pair(client, session, Kind::MlDsa44, &none());
        let (mut one, mut two, mut three) = ([0; 64], [0; 64], [0; 64]);
        client.digest_init(session, &of_key(public)).expect("an operation");
        assert_eq!(client.digest(session, b"", Output::Buffer(&mut one)), Ok(64));
        for out in [&mut two, &mut three] {
            client.digest_init(session, &of_key(public)).expect("an operation");
            assert_eq!(client.digest_final(session, Output::Buffer(out)), Ok(64));
        }
        assert_eq!((one, one), (two, three));
        assert_ne!(one[..], mu(client, session, &of_key(public)).expect("another")[..]);
    });
}

#[test]
fn only_an_ml_dsa_key_has_a_representative() {
    let (client, session) = one_user();
    let (public, private) = pair(&client, session, Kind::P256, &none());
    let aes = client.create(session, &secret(KeyType::AES, &[7; 32])).expect("a key");
    for key in [public, private, aes] {
        assert_eq!(mu(&client, session, &of_key(key)), Err(Error::KeyTypeInconsistent));
    }
    let object = client.create(session, &data("no key")).expect("an object");
    for handle in [object, ObjectHandle(0x7777)] {
        assert_eq!(mu(&client, session, &of_key(handle)), Err(Error::KeyHandleInvalid));
    }
    let allowed = none().number(A::ALLOWED_MECHANISMS, M::ML_DSA.0);
    let (public, _) = pair(&client, session, Kind::MlDsa44, &allowed);
    assert_eq!(mu(&client, session, &of_key(public)), Err(Error::MechanismInvalid));
    let long = of_mu(MuKey::Hash([0; 64].into()), &[7; 256]);
    assert_eq!(mu(&client, session, &long), Err(Error::MechanismParamInvalid));
    assert_eq!(mu(&client, session, &plain(GENERATION)), Err(Error::MechanismParamInvalid));
}

/// A private object is not visible without a login, and its handle is not a key any more after it
/// was destroyed, although the previous operation had the same mechanism and key.
#[test]
fn a_key_that_is_gone_has_no_representative() {
    let (client, session) = one_user();
    let stored = none().stored();
    let (public, private) = pair(&client, session, Kind::MlDsa44, &stored);
    for key in [public, private] {
        mu(&client, session, &of_key(key)).expect("a representative");
    }
    client.destroy_object(session, public).expect("a key");
    assert_eq!(mu(&client, session, &of_key(public)), Err(Error::KeyHandleInvalid));
    mu(&client, session, &of_key(private)).expect("a representative");
    client.logout(session).expect("a login");
    assert!(mu(&client, session, &of_key(private)).is_err());
}

#[test]
fn the_state_of_a_representative_is_saved_and_restored() {
    each_user(|client, session| {
        let (public, _) = pair(client, session, Kind::MlDsa44, &none());
        let expected = mu(client, session, &of_key(public)).expect("a representative");
        client.digest_init(session, &of_key(public)).expect("an operation");
        let restored = |begun: usize| {
            let mut state = [0; 32];
            client.operation_state(session, Output::Buffer(&mut state)).expect("a state");
            for _ in 0..2 {
                let none = ObjectHandle(0);
                client.set_operation_state(session, &state, none, none).expect("a state");
                client.digest_update(session, &MESSAGE[begun..]).expect("a part");
                let mut out = Secret::zeroed(64);
                client.digest_final(session, Output::Buffer(&mut out)).expect("a representative");
                assert_eq!(out[..], expected[..]);
            }
        };
        restored(0);
        client.digest_init(session, &of_key(public)).expect("an operation");
        client.digest_update(session, &MESSAGE[..5]).expect("a part");
        restored(5);
    });
}
