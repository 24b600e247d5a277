//! Message-based encryption: the same results as the functions for a single part, generated nonces,
//! wrong tags, and calls in the wrong order.

use jeton::backend::{AeadScheme, Direction};
use jeton::error::Error;
use jeton::id::{
    AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle,
    mechanism_flag as flag,
};
use jeton::mechanism::message::{Generator, MessageParams};
use jeton::mechanism::{self, Mechanism};
use jeton::module::Output;

use crate::ciphers::{Way, message};
use crate::keys::key_object;
use crate::support::{Client, aead_params, each_backend, hex, plain};

const GCM: (M, AeadScheme) = (M::AES_GCM, AeadScheme::AesGcm);
const CCM: (M, AeadScheme) = (M::AES_CCM, AeadScheme::AesCcm);
const POLY: (M, AeadScheme) = (M::CHACHA20_POLY1305, AeadScheme::ChaCha20Poly1305);
const BOTH: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];
const NONCE: [u8; 12] = [9; 12];
const AAD: &[u8] = b"known";

pub fn secret(client: &Client, session: SessionHandle, id: M, value: &[u8]) -> ObjectHandle {
    let key_type = if id == M::CHACHA20_POLY1305 { KeyType::CHACHA20 } else { KeyType::AES };
    let template = key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, value);
    client.create(session, &template).expect("a key")
}

fn params(scheme: AeadScheme, nonce: &[u8], tag_len: usize, len: usize) -> MessageParams {
    let mut params = MessageParams::new(scheme, nonce, tag_len).expect("lengths of the cipher");
    params.announce(len);
    params
}

/// Returns the parameter of GCM with a nonce that the token generates.
fn made(generator: Generator, fixed_bits: usize) -> MessageParams {
    let mut params = params(GCM.1, &NONCE, 16, 0);
    params.set_generator(generator, fixed_bits).expect("bits of the nonce");
    params
}

/// Returns the parameter with this tag.
pub fn tagged(mut params: MessageParams, tag: &[u8]) -> MessageParams {
    params.set_tag(tag).expect("a tag");
    params
}

fn sealed(
    client: &Client,
    session: SessionHandle,
    params: &mut MessageParams,
    data: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut out = vec![0xaa; data.len()];
    let buffer = Output::Buffer(&mut out);
    client.module.crypt_message(session, Direction::Encrypt, params, AAD, data, buffer)?;
    Ok(out)
}

fn opened(
    client: &Client,
    session: SessionHandle,
    params: &mut MessageParams,
    data: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut out = vec![0xaa; data.len()];
    let buffer = Output::Buffer(&mut out);
    let outcome = client.module.crypt_message(session, Direction::Decrypt, params, AAD, data, buffer);
    assert!(outcome.is_ok() || out.iter().all(|byte| [0, 0xaa].contains(byte)), "plaintext of a forgery");
    outcome.map(|_| out)
}

/// Processes a message in parts, whose lengths are those of the list in turn. The last call gets
/// the rest of the message.
fn in_parts(
    client: &Client,
    session: SessionHandle,
    direction: Direction,
    params: &mut MessageParams,
    data: &[u8],
    lengths: &[usize],
) -> Result<Vec<u8>, Error> {
    let module = &client.module;
    module.crypt_message_begin(session, direction, params, AAD)?;
    let (mut all, mut rest) = (Vec::new(), data);
    for len in lengths.iter().cycle() {
        if rest.len() <= *len {
            break;
        }
        let (part, after) = rest.split_at(*len);
        let mut out = vec![0; module.crypt_message_part(session, direction, part, Output::Length)?];
        assert!(direction == Direction::Encrypt || out.is_empty(), "plaintext before its tag");
        if let Some(short) = out.len().checked_sub(1) {
            let refused =
                module.crypt_message_part(session, direction, part, Output::Buffer(&mut out[..short]));
            assert_eq!(refused, Err(Error::BufferTooSmall { needed: short + 1 }));
        }
        module.crypt_message_part(session, direction, part, Output::Buffer(&mut out))?;
        all.extend_from_slice(&out);
        rest = after;
    }
    let mut out = vec![0; module.crypt_message_end(session, direction, params, rest, Output::Length)?];
    assert_eq!(all.len() + out.len(), data.len());
    if let Some(short) = out.len().checked_sub(1) {
        let buffer = Output::Buffer(&mut out[..short]);
        let refused = module.crypt_message_end(session, direction, params, rest, buffer);
        assert_eq!(refused, Err(Error::BufferTooSmall { needed: short + 1 }));
    }
    module.crypt_message_end(session, direction, params, rest, Output::Buffer(&mut out))?;
    all.extend_from_slice(&out);
    Ok(all)
}

#[test]
fn message_encryption_matches_known_values() {
    // "The Galois/Counter Mode of Operation (GCM)" (McGrew, Viega), test case 4; SP 800-38C,
    // example 1; RFC 8439, 2.8.2.
    let sunscreen =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                      sunscreen would be it.";
    let known = [
        (
            GCM,
            hex("feffe9928665731c6d6a8f9467308308"),
            hex("cafebabefacedbaddecaf888"),
            hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
            hex(
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525\
                 b16aedf5aa0de657ba637b39",
            ),
            hex(
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa05\
                 1ba30b396a0aac973d58e091",
            ),
            hex("5bc94fbc3221a5db94fae95ae7121a47"),
        ),
        (
            CCM,
            hex("404142434445464748494a4b4c4d4e4f"),
            hex("10111213141516"),
            hex("0001020304050607"),
            hex("20212223"),
            hex("7162015b"),
            hex("4dac255d"),
        ),
        (
            POLY,
            (0x80..0xa0).collect(),
            hex("070000004041424344454647"),
            hex("50515253c0c1c2c3c4c5c6c7"),
            sunscreen.to_vec(),
            hex(
                "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b\
                 1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                 3ff4def08e4b7a9de576d26586cec64b6116",
            ),
            hex("1ae10b594f09e26a7e902ecbd0600691"),
        ),
    ];
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        for ((id, scheme), key, nonce, aad, plain_text, cipher_text, tag) in &known {
            let key = secret(&client, session, *id, key);
            for direction in BOTH {
                module.message_crypt_init(session, direction, &plain(*id), key).expect("an operation");
            }
            let mut out = vec![0; plain_text.len()];
            let mut given = params(*scheme, nonce, tag.len(), plain_text.len());
            let buffer = Output::Buffer(&mut out);
            module
                .crypt_message(session, Direction::Encrypt, &mut given, aad, plain_text, buffer)
                .expect("a ciphertext");
            assert_eq!((&out, given.tag()), (cipher_text, &tag[..]), "{id}");

            let mut given = tagged(params(*scheme, nonce, tag.len(), plain_text.len()), tag);
            let buffer = Output::Buffer(&mut out);
            module
                .crypt_message(session, Direction::Decrypt, &mut given, aad, cipher_text, buffer)
                .expect("a plaintext");
            assert_eq!(&out, plain_text, "{id}");
            for direction in BOTH {
                module.message_crypt_final(session, direction).expect("an operation");
            }
        }
    });
}

#[test]
fn message_encryption_equals_a_single_operation() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        for ((id, scheme), lengths) in [
            (GCM, &[(12, 16), (12, 4), (33, 12), (12, 16)][..]),
            (CCM, &[(7, 4), (13, 16), (12, 8)]),
            (POLY, &[(12, 16)]),
        ] {
            let key = secret(&client, session, id, &message(32));
            for direction in BOTH {
                module.message_crypt_init(session, direction, &plain(id), key).expect("an operation");
            }
            for (nonce_len, tag_len) in lengths {
                for len in [0, 1, 16, 100, 1000] {
                    let (data, nonce) = (message(len), vec![9; *nonce_len]);
                    let mechanism =
                        Mechanism { params: aead_params(scheme, &nonce, AAD, *tag_len, len), ..plain(id) };
                    let single =
                        Way::Encrypt.whole(&client, session, &mechanism, key, &data).expect("a ciphertext");
                    let (expected, tag) = single.split_at(len);
                    let new = || params(scheme, &nonce, *tag_len, len);

                    let mut given = new();
                    let cipher_text = sealed(&client, session, &mut given, &data).expect("a ciphertext");
                    assert_eq!((&cipher_text[..], given.tag()), (expected, tag), "{id} {len}");
                    let tagged = || tagged(new(), tag);
                    assert_eq!(opened(&client, session, &mut tagged(), expected), Ok(data.clone()));

                    for parts in [&[1, 3, 17][..], &[16], &[2000]] {
                        let mut given = new();
                        let all = in_parts(&client, session, Direction::Encrypt, &mut given, &data, parts);
                        assert_eq!((all.as_deref(), given.tag()), (Ok(expected), tag), "{id} {len}");
                        let all =
                            in_parts(&client, session, Direction::Decrypt, &mut tagged(), expected, parts);
                        assert_eq!(all.as_ref(), Ok(&data), "{id} {len} {parts:?}");
                    }
                }
            }
            for direction in BOTH {
                module.message_crypt_final(session, direction).expect("an operation");
            }
        }
    });
}

#[test]
fn a_forged_message_returns_no_data_and_ends_only_this_message() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        for (id, scheme) in [GCM, CCM, POLY] {
            let (key, data) = (secret(&client, session, id, &message(32)), message(100));
            for direction in BOTH {
                module.message_crypt_init(session, direction, &plain(id), key).expect("an operation");
            }
            let mut given = params(scheme, &NONCE, 16, 100);
            let good = sealed(&client, session, &mut given, &data).expect("a ciphertext");
            let tagged = |at: Option<usize>| {
                let mut tag = given.tag().to_vec();
                at.into_iter().for_each(|at| tag[at] ^= 1);
                tagged(params(scheme, &NONCE, 16, 100), &tag)
            };
            let mut flipped = good.clone();
            flipped[99] ^= 0x80;
            for (forged, at) in [(&good, Some(0)), (&good, Some(15)), (&flipped, None)] {
                let outcome = opened(&client, session, &mut tagged(at), forged);
                assert_eq!(outcome, Err(Error::AeadDecryptFailed), "{id}");
                let outcome =
                    in_parts(&client, session, Direction::Decrypt, &mut tagged(at), forged, &[7, 40]);
                assert_eq!(outcome, Err(Error::AeadDecryptFailed), "{id}");
                assert_eq!(opened(&client, session, &mut tagged(None), &good), Ok(data.clone()));
            }
            // Other associated data.
            let (mut out, mut other) = ([0; 100], tagged(None));
            let buffer = Output::Buffer(&mut out);
            let outcome = module.crypt_message(session, Direction::Decrypt, &mut other, b"", &good, buffer);
            assert_eq!((outcome, out), (Err(Error::AeadDecryptFailed), [0; 100]));
            for direction in BOTH {
                module.message_crypt_final(session, direction).expect("an operation");
            }
        }
    });
}

#[test]
fn generated_nonces_never_repeat() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let key = secret(&client, session, M::AES_GCM, &message(16));
        let gcm = plain(M::AES_GCM);
        for generator in [Generator::Any, Generator::Random, Generator::Counter, Generator::CounterXor] {
            for direction in BOTH {
                module.message_crypt_init(session, direction, &gcm, key).expect("an operation");
            }
            let mut nonces = Vec::new();
            for at in 0..4 {
                let (mut given, data) = (made(generator, 32), message(40));
                // A length query or a short buffer does not use a nonce.
                let crypt = |params: &mut MessageParams, out: Output<'_>| {
                    module.crypt_message(session, Direction::Encrypt, params, AAD, &data, out)
                };
                assert_eq!(crypt(&mut given, Output::Length), Ok(40));
                let refused = crypt(&mut given, Output::Buffer(&mut [0; 39]));
                assert_eq!((refused, given.nonce()), (Err(Error::BufferTooSmall { needed: 40 }), &NONCE[..]));

                let cipher_text = if at == 2 {
                    in_parts(&client, session, Direction::Encrypt, &mut given, &data, &[9])
                } else {
                    sealed(&client, session, &mut given, &data)
                };
                let nonce = given.nonce().to_vec();
                assert_eq!(nonce[..4], NONCE[..4], "the fixed bits");
                let mut back = tagged(params(GCM.1, &nonce, 16, 40), given.tag());
                let plain_text = opened(&client, session, &mut back, &cipher_text.expect("a ciphertext"));
                assert_eq!(plain_text, Ok(data));
                assert!(!nonces.contains(&nonce), "{generator:?}");
                nonces.push(nonce);
            }
            let counted = |start: u8| {
                let counted = (0..4).map(|at| [&NONCE[..4], &[start; 7][..], &[start ^ at][..]].concat());
                counted.collect::<Vec<_>>()
            };
            match generator {
                Generator::Counter => assert_eq!(nonces, counted(0)),
                Generator::CounterXor => assert_eq!(nonces, counted(9)),
                _ => {}
            }
            for direction in BOTH {
                module.message_crypt_final(session, direction).expect("an operation");
            }
        }
    });
}

#[test]
fn an_exhausted_counter_is_refused_and_restarts_with_the_operation() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let key = secret(&client, session, M::AES_GCM, &message(16));
        for _ in 0..2 {
            module
                .message_crypt_init(session, Direction::Encrypt, &plain(M::AES_GCM), key)
                .expect("an operation");
            for count in 0..4 {
                let mut given = made(Generator::Counter, 94);
                sealed(&client, session, &mut given, b"data").expect("a ciphertext");
                assert_eq!(given.nonce()[11], NONCE[11] & !3 | count);
            }
            let used_up = sealed(&client, session, &mut made(Generator::Counter, 94), b"data");
            assert_eq!(used_up, Err(Error::MechanismParamInvalid));
            module.message_crypt_final(session, Direction::Encrypt).expect("an operation");
        }
    });
}

#[test]
fn parameters_of_another_cipher_or_length_are_refused() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let key = secret(&client, session, M::AES_CCM, &message(16));
        for direction in BOTH {
            module.message_crypt_init(session, direction, &plain(M::AES_CCM), key).expect("an operation");
        }
        let other = &mut params(GCM.1, &NONCE, 16, 4);
        assert_eq!(sealed(&client, session, other, b"data"), Err(Error::MechanismParamInvalid));
        let begun = module.crypt_message_begin(session, Direction::Encrypt, other, AAD);
        assert_eq!(begun, Err(Error::MechanismParamInvalid));

        let other = &mut params(CCM.1, &NONCE, 16, 5);
        assert_eq!(sealed(&client, session, other, b"data"), Err(Error::DataLenRange));
        assert_eq!(opened(&client, session, other, b"data"), Err(Error::EncryptedDataLenRange));
        let short = in_parts(&client, session, Direction::Encrypt, other, b"data", &[2]);
        assert_eq!(short, Err(Error::DataLenRange));

        // A tag whose length differs from that at the start of the message ends the message.
        let longer = &mut params(CCM.1, &NONCE, 14, 5);
        module.crypt_message_begin(session, Direction::Encrypt, other, AAD).expect("a message");
        let refused = module.crypt_message_end(
            session,
            Direction::Encrypt,
            longer,
            b"data!",
            Output::Buffer(&mut [0; 5]),
        );
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
        let over = module.crypt_message_end(
            session,
            Direction::Encrypt,
            other,
            b"data!",
            Output::Buffer(&mut [0; 5]),
        );
        assert_eq!(over, Err(Error::OperationNotInitialized));
    });
}

#[test]
fn calls_in_the_wrong_order_are_refused() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let key = secret(&client, session, M::AES_GCM, &message(16));
        let gcm = plain(M::AES_GCM);
        let given = || params(GCM.1, &NONCE, 16, 0);
        for direction in BOTH {
            let once = || module.crypt_message(session, direction, &mut given(), AAD, b"", Output::Length);
            let begin = || module.crypt_message_begin(session, direction, &mut given(), AAD);
            let part = || module.crypt_message_part(session, direction, b"", Output::Buffer(&mut []));
            let end = || module.crypt_message_end(session, direction, &mut given(), b"", Output::Length);
            let finish = || module.message_crypt_final(session, direction);
            let init = || module.message_crypt_init(session, direction, &gcm, key);
            let missing = Error::OperationNotInitialized;

            assert_eq!((once(), begin(), finish()), (Err(missing), Err(missing), Err(missing)));
            assert_eq!((part(), end()), (Err(missing), Err(missing)));
            assert_eq!((init(), init()), (Ok(()), Err(Error::OperationActive)));
            assert_eq!((part(), end()), (Err(missing), Err(missing)));
            assert_eq!((once(), begin()), (Ok(0), Ok(())));
            let active = Error::OperationActive;
            assert_eq!((once(), begin(), finish()), (Err(active), Err(active), Err(active)));
            // The message is still active.
            assert_eq!((part(), end()), (Ok(0), Ok(0)));
            assert_eq!(module.crypt_message_cancel(session, direction), Ok(()));
            assert_eq!((part(), once(), finish()), (Err(missing), Ok(0), Ok(())));
            assert_eq!(finish(), Err(missing));
            // The operation ends in the middle of a message.
            assert_eq!((init(), begin()), (Ok(()), Ok(())));
            assert_eq!(module.message_crypt_cancel(session, direction), Ok(()));
            assert_eq!((part(), init(), begin()), (Err(missing), Ok(()), Ok(())));
            let own =
                if direction == Direction::Encrypt { flag::MESSAGE_ENCRYPT } else { flag::MESSAGE_DECRYPT };
            assert_eq!(module.cancel(session, own), Ok(()));
            assert_eq!((part(), begin()), (Err(missing), Err(missing)));
        }
    });
}

#[test]
fn message_operations_run_beside_others_and_end_at_logout() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let key = secret(&client, session, M::AES_GCM, &message(16));
        let gcm = plain(M::AES_GCM);
        let single = aead_params(AeadScheme::AesGcm, &NONCE, AAD, 16, 0);
        let single = Mechanism { params: single, ..plain(M::AES_GCM) };
        module.encrypt_init(session, &single, key).expect("an operation");
        module.message_crypt_init(session, Direction::Encrypt, &gcm, key).expect("an operation");
        let mut given = params(GCM.1, &NONCE, 16, 0);
        let cipher_text = sealed(&client, session, &mut given, b"data").expect("a ciphertext");
        let mut out = [0; 20];
        assert_eq!(module.encrypt(session, b"data", Output::Buffer(&mut out)), Ok(20));
        assert_eq!(out[..], [&cipher_text, given.tag()].concat());

        module.logout(session).expect("the user");
        let over = sealed(&client, session, &mut given, b"data");
        assert_eq!(over, Err(Error::OperationNotInitialized));
    });
}

#[test]
fn only_mechanisms_with_message_flags_take_messages() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let key = secret(&client, session, M::AES_GCM, &message(16));
        for row in mechanism::all() {
            let mechanism = plain(row.id);
            let flags = module.mechanism(client.slot, row.id).expect("a mechanism").flags;
            let as_said = |outcome: Result<(), Error>, flag| {
                let refused = outcome == Err(Error::MechanismInvalid);
                assert_eq!(refused, flags & flag == 0, "{}", row.id);
            };
            let crypt = |direction| module.message_crypt_init(session, direction, &mechanism, key);
            as_said(crypt(Direction::Encrypt), flag::MESSAGE_ENCRYPT);
            as_said(crypt(Direction::Decrypt), flag::MESSAGE_DECRYPT);
            as_said(module.message_sign_init(session, &mechanism, key), flag::MESSAGE_SIGN);
            as_said(module.message_verify_init(session, &mechanism, key), flag::MESSAGE_VERIFY);
            for direction in BOTH {
                module.message_crypt_cancel(session, direction).expect("an operation");
            }
            module.message_sign_cancel(session).expect("an operation");
            module.message_verify_cancel(session).expect("an operation");
            let messages = flag::MESSAGE_ENCRYPT | flag::MESSAGE_SIGN;
            assert_eq!(flags & flag::MULTI_MESSAGE != 0, flags & messages != 0, "{}", row.id);
        }
        let may_not = key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &message(16));
        let may_not = client.create(session, &may_not.flag(A::ENCRYPT, false)).expect("a key");
        let refused = module.message_crypt_init(session, Direction::Encrypt, &plain(M::AES_GCM), may_not);
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
    });
}
