//! ML-KEM: the template of the received key. The conformance suite has the ciphertexts and secrets.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass};
use jeton::module::Output;

use crate::keys::{Kind, pair};
use crate::support::{Attributes, none, one_user, plain};

#[test]
fn a_decapsulated_key_follows_its_template() {
    one_user(|client, session| {
        let (module, kem, mut sealed) = (&client.module, plain(M::ML_KEM), vec![0; 768]);
        let (public, private) = pair(client, session, Kind::MlKem512, &none());
        let aes = none().number(A::KEY_TYPE, KeyType::AES.0);
        let short = Output::Buffer(&mut sealed[1..]);
        let refused = module.encapsulate_key(session, &kem, public, &aes.template(), short);
        assert_eq!(refused, Err(Error::BufferTooSmall { needed: 768 }));
        let out = Output::Buffer(&mut sealed);
        let made = module.encapsulate_key(session, &kem, public, &aes.template(), out);
        let open = |template: &Attributes| {
            module.decapsulate_key(session, &kem, private, &template.template(), &sealed)
        };
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
    });
}
