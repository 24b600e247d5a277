//! Signatures with data recovery, signatures that are passed before the data, and dual-function
//! operations.

use jeton::backend::CipherScheme;
use jeton::error::Error;
use jeton::id::{MechanismType as M, token_flag};
use jeton::mechanism::{Mechanism, Params};
use jeton::module::Output;

use crate::ciphers::{Way, message};
use crate::keys::{Kind, pair};
use crate::support::{Client, each_backend, none, plain, with_iv};

#[test]
fn verify_recover_returns_the_signed_data() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        for (id, data) in [(M::RSA_PKCS, message(40)), (M::RSA_PKCS, vec![]), (M::RSA_X_509, message(256))] {
            let (mechanism, mut signature) = (plain(id), [0; 256]);
            module.sign_recover_init(session, &mechanism, private).expect("an operation");
            assert_eq!(module.sign_recover(session, &data, Output::Length), Ok(256));
            assert_eq!(module.sign_recover(session, &data, Output::Buffer(&mut signature)), Ok(256));
            assert_eq!(Ok(signature.to_vec()), client.sign(session, &mechanism, private, &data));

            module.verify_recover_init(session, &mechanism, public).expect("an operation");
            let mut out = vec![0; data.len()];
            if let Some(short) = data.len().checked_sub(1) {
                let refused = module.verify_recover(session, &signature, Output::Buffer(&mut out[..short]));
                assert_eq!(refused, Err(Error::BufferTooSmall { needed: data.len() }));
            }
            assert_eq!(module.verify_recover(session, &signature, Output::Buffer(&mut out)), Ok(data.len()));
            assert_eq!(out, data);
        }
        let mechanism = plain(M::RSA_PKCS);
        for (signature, error) in [(&[1; 255], Error::SignatureLenRange)]
            .map(|(s, e)| (&s[..], e))
            .into_iter()
            .chain([(&[1; 256][..], Error::SignatureInvalid)])
        {
            module.verify_recover_init(session, &mechanism, public).expect("an operation");
            let refused = module.verify_recover(session, signature, Output::Buffer(&mut [0; 256]));
            assert_eq!(refused, Err(error));
            let over = module.verify_recover(session, signature, Output::Length);
            assert_eq!(over, Err(Error::OperationNotInitialized));
        }
        assert_eq!(
            module.sign_recover_init(session, &plain(M::SHA256_RSA_PKCS), private),
            Err(Error::MechanismInvalid)
        );
    });
}

#[test]
fn verify_signature_takes_the_signature_first() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        for (kind, id) in
            [(Kind::P256, M::ECDSA_SHA256), (Kind::MlDsa44, M::ML_DSA), (Kind::Generic, M::SHA256_HMAC)]
        {
            let (public, private) = pair(&client, session, kind, &none());
            let mechanism = plain(id);
            let good = client.sign(session, &mechanism, private, b"some data").expect("a signature");
            let bad = client.sign(session, &mechanism, private, b"other data").expect("a signature");
            for (signature, known) in [(&good, Ok(())), (&bad, Err(Error::SignatureInvalid)), (&good, Ok(()))]
            {
                module.verify_signature_init(session, &mechanism, public, signature).expect("an operation");
                assert_eq!(module.verify_signature(session, b"some data"), known, "{id}");
                module.verify_signature_init(session, &mechanism, public, signature).expect("an operation");
                module.verify_signature_update(session, b"some ").expect("a part");
                module.verify_signature_update(session, b"data").expect("a part");
                assert_eq!(module.verify_signature_final(session), known, "{id}");
                assert_eq!(module.verify_signature_final(session), Err(Error::OperationNotInitialized));
            }
        }
    });
}

#[test]
fn dual_functions_equal_the_single_operations() {
    each_backend(|provider| {
        let client = Client::new(provider);
        // PKCS#11 3.2, "CK_TOKEN_INFO": CKF_DUAL_CRYPTO_OPERATIONS.
        let info = client.module.token(client.slot).expect("a token");
        assert_ne!(info.flags & token_flag::DUAL_CRYPTO_OPERATIONS, 0);
        let (module, session) = (&client.module, client.user());
        let (aes, _) = pair(&client, session, Kind::Aes, &none());
        let (hmac, _) = pair(&client, session, Kind::Generic, &none());
        let cbc = with_iv(M::AES_CBC_PAD, &[7; 16]);
        let (sha, code) = (plain(M::SHA256), plain(M::SHA256_HMAC));
        let data = message(100);
        let sealed = Way::Encrypt.whole(&client, session, &cbc, aes, &data).expect("a ciphertext");
        let mut known = [0; 32];
        module.digest_init(session, &sha).expect("an operation");
        module.digest(session, &data, Output::Buffer(&mut known)).expect("a digest");
        let signed = client.sign(session, &code, hmac, &data).expect("a code");

        let neither = module.digest_encrypt_update(session, &data, Output::Buffer(&mut [0; 200]));
        assert_eq!(neither, Err(Error::OperationNotInitialized));
        for signs in [false, true] {
            let (mut out, mut end) = ([0; 200], [0; 32]);
            module.encrypt_init(session, &cbc, aes).expect("an operation");
            if signs {
                module.sign_init(session, &code, hmac).expect("an operation");
            } else {
                module.digest_init(session, &sha).expect("an operation");
            }
            let update = |out: Output<'_>| match signs {
                true => module.sign_encrypt_update(session, &data, out),
                false => module.digest_encrypt_update(session, &data, out),
            };
            // Neither the length query nor the short buffer signs or digests data.
            assert_eq!(update(Output::Length), Ok(96));
            assert_eq!(update(Output::Buffer(&mut [0; 95])), Err(Error::BufferTooSmall { needed: 96 }));
            assert_eq!(update(Output::Buffer(&mut out)), Ok(96));
            assert_eq!(module.encrypt_final(session, Output::Buffer(&mut out[96..])), Ok(16));
            assert_eq!(out[..112], sealed);
            if signs {
                assert_eq!(module.sign_final(session, Output::Buffer(&mut end)), Ok(32));
                assert_eq!(end[..], signed);
            } else {
                assert_eq!(module.digest_final(session, Output::Buffer(&mut end)), Ok(32));
                assert_eq!(end, known);
            }

            // CBC with padding returns the last block only at the end, so that block would not be
            // digested or verified. CTR returns all bytes before the end.
            let ctr = Mechanism {
                params: Params::Cipher(CipherScheme::AesCtr { block: [1; 16], bits: 64 }),
                ..plain(M::AES_CTR)
            };
            let sealed = Way::Encrypt.whole(&client, session, &ctr, aes, &data).expect("a ciphertext");
            module.decrypt_init(session, &ctr, aes).expect("an operation");
            let mut out = [0; 100];
            if signs {
                module.verify_init(session, &code, hmac).expect("an operation");
                assert_eq!(module.decrypt_verify_update(session, &sealed, Output::Buffer(&mut out)), Ok(100));
                assert_eq!(module.verify_final(session, &signed), Ok(()));
            } else {
                module.digest_init(session, &sha).expect("an operation");
                assert_eq!(module.decrypt_digest_update(session, &sealed, Output::Buffer(&mut out)), Ok(100));
                assert_eq!(module.digest_final(session, Output::Buffer(&mut end)), Ok(32));
                assert_eq!(end, known);
            }
            assert_eq!(out[..], data);
            assert_eq!(module.decrypt_final(session, Output::Buffer(&mut [])), Ok(0));
        }
    });
}
