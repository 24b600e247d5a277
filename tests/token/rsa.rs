//! RSA encryption: message lengths of each padding, one part and several, short buffers, and
//! invalid ciphertexts.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, MechanismType as M};
use jeton::mechanism::{Mechanism, Params};
use jeton::module::Output;

use crate::ciphers::{Way, message};
use crate::keys::{Kind, pair};
use crate::support::{Client, each_backend, none, plain};

/// The RSA mechanisms that encrypt or wrap, and do not sign. The second one only wraps, and the
/// tests of wrapping cover it.
pub const COVERED: [M; 2] = [M::RSA_PKCS_OAEP, M::RSA_AES_KEY_WRAP];

pub fn oaep(hash: Hash, mgf: Hash, label: &[u8]) -> Mechanism {
    Mechanism { params: Params::Oaep { hash, mgf, label: label.into() }, ..plain(M::RSA_PKCS_OAEP) }
}

/// Returns mechanisms, each with its longest message for a modulus of 256 bytes.
fn paddings() -> Vec<(Mechanism, usize)> {
    let mut all = vec![(plain(M::RSA_PKCS), 256 - 11)];
    for hash in [Hash::Sha1, Hash::Sha224, Hash::Sha256, Hash::Sha384, Hash::Sha512, Hash::Sha3_256] {
        all.push((oaep(hash, hash, b""), 256 - 2 - 2 * hash.len()));
    }
    all.push((oaep(Hash::Sha256, Hash::Sha1, b"a label"), 256 - 2 - 2 * 32));
    all
}

#[test]
fn messages_up_to_the_maximum_decrypt_in_a_single_part_only() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        for (mechanism, longest) in paddings() {
            for len in [0, 1, longest] {
                let data = message(len);
                let sealed = Way::Encrypt.whole(&client, session, &mechanism, public, &data);
                let sealed = sealed.expect("a ciphertext");
                assert_eq!(sealed.len(), 256);
                let opened = Way::Decrypt.whole(&client, session, &mechanism, private, &sealed);
                assert_eq!(opened.as_ref(), Ok(&data), "{len}");
                // PKCS#11 3.2, "Mechanisms vs. functions": "Single-part operations only".
                let refused = Error::OperationNotInitialized;
                for (way, key) in [(Way::Encrypt, public), (Way::Decrypt, private)] {
                    let parts = way.parts(&client, session, &mechanism, key, &sealed, &[100, 7]);
                    assert_eq!(parts, Err(refused));
                    way.init(&client, session, &mechanism, key).expect("an operation");
                    assert_eq!(way.end(&client, session, Output::Buffer(&mut [0; 256])), Err(refused));
                    // The refused call ended the operation.
                    way.init(&client, session, &mechanism, key).expect("an operation");
                    way.cancel(&client, session);
                }
            }
            for len in [longest + 1, 257, 1000] {
                let refused = Way::Encrypt.whole(&client, session, &mechanism, public, &message(len));
                assert_eq!(refused, Err(Error::DataLenRange), "{len}");
            }
        }
    });
}

#[test]
fn raw_rsa_output_has_the_length_of_the_modulus() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        let mechanism = plain(M::RSA_X_509);
        let sealed =
            Way::Encrypt.whole(&client, session, &mechanism, public, b"short").expect("a ciphertext");
        let opened = Way::Decrypt.whole(&client, session, &mechanism, private, &sealed).expect("a block");
        assert_eq!(opened, [&[0; 251][..], b"short"].concat());
        let above = Way::Encrypt.whole(&client, session, &mechanism, public, &[0xff; 256]);
        assert_eq!(above, Err(Error::DataInvalid));
    });
}

#[test]
fn a_short_buffer_keeps_the_operation_active() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        for (mechanism, _) in paddings() {
            let sealed = Way::Encrypt
                .whole(&client, session, &mechanism, public, b"0123456789")
                .expect("a ciphertext");
            client.module.decrypt_init(session, &mechanism, private).expect("an operation");
            assert_eq!(client.module.decrypt(session, &sealed, Output::Length), Ok(256));
            let mut out = [0; 10];
            let refused = client.module.decrypt(session, &sealed, Output::Buffer(&mut out[..9]));
            assert_eq!(refused, Err(Error::BufferTooSmall { needed: 10 }));
            assert_eq!(client.module.decrypt(session, &sealed, Output::Buffer(&mut out)), Ok(10));
            assert_eq!(&out, b"0123456789");

            client.module.encrypt_init(session, &mechanism, public).expect("an operation");
            let refused = client.module.encrypt(session, b"data", Output::Buffer(&mut [0; 255]));
            assert_eq!(refused, Err(Error::BufferTooSmall { needed: 256 }));
            assert_eq!(client.module.encrypt(session, b"data", Output::Buffer(&mut [0; 256])), Ok(256));
        }
    });
}

#[test]
fn a_failed_decryption_ends_the_operation() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        for (mechanism, _) in paddings() {
            let sealed =
                Way::Encrypt.whole(&client, session, &mechanism, public, b"data").expect("a ciphertext");
            for len in [0, 255, 257] {
                let wrong = message(len);
                let refused = Way::Decrypt.whole(&client, session, &mechanism, private, &wrong);
                assert_eq!(refused, Err(Error::EncryptedDataLenRange), "{len}");
                let over = client.module.decrypt_final(session, Output::Length);
                assert_eq!(over, Err(Error::OperationNotInitialized));
            }
            let another = oaep(Hash::Sha256, Hash::Sha256, b"another label");
            let refused = Way::Decrypt.whole(&client, session, &another, private, &sealed);
            assert_eq!(refused, Err(Error::EncryptedDataInvalid));
            let opened = Way::Decrypt.whole(&client, session, &mechanism, private, &sealed);
            assert_eq!(opened.as_deref(), Ok(&b"data"[..]));
        }
    });
}

#[test]
fn rsa_keys_encrypt_only_with_the_right_usage() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        let mechanism = plain(M::RSA_PKCS);
        let refused = Err(Error::KeyFunctionNotPermitted);
        assert_eq!(client.module.encrypt_init(session, &mechanism, private), refused);
        assert_eq!(client.module.decrypt_init(session, &mechanism, public), refused);
        client.set(session, private, &none().flag(A::DECRYPT, false)).expect("a change");
        assert_eq!(client.module.decrypt_init(session, &mechanism, private), refused);
        let unnamed = plain(M::RSA_PKCS_OAEP);
        let refused = client.module.encrypt_init(session, &unnamed, public);
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
        let wraps = plain(M::RSA_AES_KEY_WRAP);
        assert_eq!(client.module.encrypt_init(session, &wraps, public), Err(Error::MechanismInvalid));
    });
}
