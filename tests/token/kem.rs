//! ML-KEM: decapsulation returns the secret, and a wrong ciphertext gives another one.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M};
use jeton::module::Output;

use crate::keys::{Kind, pair};
use crate::support::{Client, each_backend, none, plain};

/// Every mechanism that has a case here.
pub const COVERED: [M; 1] = [M::ML_KEM];

#[test]
fn both_sides_share_the_secret_and_a_wrong_ciphertext_gives_another() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let shown = none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true);
        let mechanism = plain(M::ML_KEM);
        for (kind, len) in Kind::ENCAPSULATING.into_iter().zip([768, 1088, 1568]) {
            let (public, private) = pair(&client, session, kind, &none());
            let aes = shown.clone().number(A::KEY_TYPE, KeyType::AES.0);
            let asked = module.encapsulate_key(session, &mechanism, public, &aes.template(), Output::Length);
            assert_eq!(asked, Ok((len, None)));
            let mut sealed = vec![0; len];
            let short = Output::Buffer(&mut sealed[1..]);
            let refused = module.encapsulate_key(session, &mechanism, public, &aes.template(), short);
            assert_eq!(refused, Err(Error::BufferTooSmall { needed: len }));
            let out = Output::Buffer(&mut sealed);
            let (written, key) =
                module.encapsulate_key(session, &mechanism, public, &aes.template(), out).expect("a key");
            let key = key.expect("a key");
            assert_eq!(written, len);
            let opened = module
                .decapsulate_key(session, &mechanism, private, &aes.template(), &sealed)
                .expect("a key");
            let value = |key| client.read(session, key, A::VALUE).expect("a secret");
            assert_eq!((value(key), value(key).len()), (value(opened), 32), "{kind:?}");
            assert_eq!(client.number(session, opened, A::KEY_TYPE), KeyType::AES.0);
            for id in [A::LOCAL, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE] {
                assert!(!client.flag(session, key, id) && !client.flag(session, opened, id), "{id}");
            }
            // FIPS 203: a wrong ciphertext gives a secret that only the holder of the key can
            // compute.
            sealed[len - 1] ^= 1;
            let other = module
                .decapsulate_key(session, &mechanism, private, &shown.template(), &sealed)
                .expect("a key");
            assert_ne!(value(other), value(key));
            let short = module.decapsulate_key(session, &mechanism, private, &shown.template(), &sealed[1..]);
            assert_eq!(short, Err(Error::WrappedKeyLenRange));

            let refused = module.decapsulate_key(session, &mechanism, public, &shown.template(), &sealed);
            assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
            let refused =
                module.encapsulate_key(session, &mechanism, private, &shown.template(), Output::Length);
            assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
            let before = client.find(session, &none()).len();
            let longer = shown.clone().number(A::VALUE_LEN, 33);
            let refused = module.decapsulate_key(session, &mechanism, private, &longer.template(), &sealed);
            assert_eq!(refused, Err(Error::TemplateInconsistent));
            let pair = shown.clone().number(A::CLASS, 3).number(A::KEY_TYPE, KeyType::RSA.0);
            let refused = module.decapsulate_key(session, &mechanism, private, &pair.template(), &sealed);
            assert_eq!(refused, Err(Error::TemplateInconsistent));
            assert_eq!(client.find(session, &none()).len(), before);
        }
    });
}
