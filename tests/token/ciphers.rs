//! Every mechanism that encrypts with a secret key: in one part and in several, with short buffers,
//! with invalid ciphertexts, in a second operation, and with keys that lack the usage.

use jeton::backend::{AeadScheme, CipherScheme, des3};
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::{Mechanism, Params};
use jeton::module::Output;

use crate::keys::{Kind, key_object, pair};
use crate::support::{Client, aead_params, each_backend, none, plain, with_iv};

/// A mechanism that encrypts.
pub struct Case {
    pub mechanism: Mechanism,
    pub key_type: KeyType,
    /// Length of the key in bytes.
    pub key: usize,
    /// Message lengths that it accepts.
    pub messages: Vec<usize>,
    /// The number of bytes by which the ciphertext is longer than a message of the first length.
    pub growth: usize,
    /// The error for a ciphertext with one flipped bit; `None` if the cipher cannot detect it.
    pub flipped: Option<Error>,
    /// Message lengths that it refuses.
    pub refused: Vec<usize>,
}

impl Case {
    /// The value of its key. Each byte of a DES key has an odd number of bits set.
    fn value(&self) -> Vec<u8> {
        let mut value = message(self.key);
        if self.key_type == KeyType::DES3 {
            des3::set_parity(&mut value);
        }
        value
    }
}

const IV: [u8; 16] = [7; 16];
const CCM_LEN: usize = 100;

pub fn cases() -> Vec<Case> {
    let aes_iv = |id, messages| case(with_iv(id, &IV), messages);
    let counter = |bits| Params::Cipher(CipherScheme::AesCtr { block: [0; 16], bits });
    let blocks = || vec![16, 48, 1024];
    let any = || vec![1, 15, 16, 17, 100, 1000];
    let mut cases = vec![
        Case { refused: vec![1, 15, 17], ..case(plain(M::AES_ECB), blocks()) },
        Case { refused: vec![1, 15, 17], ..aes_iv(M::AES_CBC, blocks()) },
        aes(M::AES_CTR, counter(128), any()),
        aes(M::AES_CTR, counter(32), any()),
        aes_iv(M::AES_OFB, any()),
        aes_iv(M::AES_CFB1, any()),
        aes_iv(M::AES_CFB8, any()),
        Case { refused: vec![1, 9], ..aes_iv(M::AES_CFB64, vec![8, 16, 24, 1000]) },
        aes_iv(M::AES_CFB128, any()),
        Case { refused: vec![1, 15], ..aes_iv(M::AES_CTS, vec![16, 17, 31, 32, 33, 1000]) },
        Case { growth: 15, ..aes_iv(M::AES_CBC_PAD, any()) },
    ];
    for tag_len in [4, 12, 16] {
        let params = aead(AeadScheme::AesGcm, 12, tag_len, 0);
        cases.push(Case { growth: tag_len, ..authentic(aes(M::AES_GCM, params, any())) });
    }
    cases.push(Case { growth: 16, ..authentic(aes(M::AES_GCM, aead(AeadScheme::AesGcm, 33, 16, 0), any())) });
    for (nonce, tag_len) in [(7, 4), (12, 8), (13, 16)] {
        let case =
            authentic(aes(M::AES_CCM, aead(AeadScheme::AesCcm, nonce, tag_len, CCM_LEN), vec![CCM_LEN]));
        cases.push(Case { growth: tag_len, refused: vec![CCM_LEN - 1, CCM_LEN + 1], ..case });
    }
    for iv in [&[][..], &[3; 8]] {
        let case = authentic(case(with_iv(M::AES_KEY_WRAP, iv), vec![16, 24, 1000]));
        cases.push(Case { growth: 8, refused: vec![8, 17], ..case });
    }
    for id in [M::AES_KEY_WRAP_KWP, M::AES_KEY_WRAP_PAD] {
        for iv in [&[][..], &[3; 4]] {
            cases.push(Case { growth: 15, ..authentic(case(with_iv(id, iv), any())) });
        }
    }
    for key in [32, 64] {
        let case = aes_iv(M::AES_XTS, vec![16, 17, 31, 32, 1000]);
        cases.push(Case { key_type: KeyType::AES_XTS, key, refused: vec![1, 15], ..case });
    }
    for nonce in [8, 12] {
        let params = Params::Cipher(CipherScheme::ChaCha20 { nonce: vec![5; nonce].into(), counter: 1 });
        cases.push(Case { key_type: KeyType::CHACHA20, ..aes(M::CHACHA20, params, any()) });
    }
    let iv = |id| with_iv(id, &[7; 8]);
    let des3 = |case| Case { key_type: KeyType::DES3, key: 24, ..case };
    for mechanism in [plain(M::DES3_ECB), iv(M::DES3_CBC)] {
        let refused = vec![1, 7, 9, 15, 17];
        cases.push(des3(Case { refused, ..case(mechanism, vec![8, 16, 24, 1000]) }));
    }
    cases.push(des3(Case { growth: 7, ..case(iv(M::DES3_CBC_PAD), any()) }));
    let case = authentic(aes(M::CHACHA20_POLY1305, aead(AeadScheme::ChaCha20Poly1305, 12, 16, 0), any()));
    cases.push(Case { key_type: KeyType::CHACHA20, growth: 16, ..case });
    cases
}

fn aes(id: M, params: Params, messages: Vec<usize>) -> Case {
    case(Mechanism { params, ..plain(id) }, messages)
}

fn case(mechanism: Mechanism, messages: Vec<usize>) -> Case {
    Case {
        mechanism,
        key_type: KeyType::AES,
        key: 32,
        messages,
        growth: 0,
        flipped: None,
        refused: Vec::new(),
    }
}

fn authentic(case: Case) -> Case {
    Case { flipped: Some(Error::EncryptedDataInvalid), ..case }
}

fn aead(cipher: AeadScheme, nonce: usize, tag_len: usize, data_len: usize) -> Params {
    aead_params(cipher, &vec![9; nonce], b"known", tag_len, data_len)
}

pub fn message(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(3).wrapping_add(1)).collect()
}

/// Encryption or decryption, so that one test covers both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Encrypt,
    Decrypt,
}

/// The functions of one direction.
impl Way {
    pub fn init(
        self,
        client: &Client,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<(), Error> {
        match self {
            Way::Encrypt => client.module.encrypt_init(session, mechanism, key),
            Way::Decrypt => client.module.decrypt_init(session, mechanism, key),
        }
    }

    pub fn once(
        self,
        client: &Client,
        session: SessionHandle,
        data: &[u8],
        out: Output<'_>,
    ) -> Result<usize, Error> {
        match self {
            Way::Encrypt => client.module.encrypt(session, data, out),
            Way::Decrypt => client.module.decrypt(session, data, out),
        }
    }

    pub fn update(
        self,
        client: &Client,
        session: SessionHandle,
        data: &[u8],
        out: Output<'_>,
    ) -> Result<usize, Error> {
        match self {
            Way::Encrypt => client.module.encrypt_update(session, data, out),
            Way::Decrypt => client.module.decrypt_update(session, data, out),
        }
    }

    pub fn end(self, client: &Client, session: SessionHandle, out: Output<'_>) -> Result<usize, Error> {
        match self {
            Way::Encrypt => client.module.encrypt_final(session, out),
            Way::Decrypt => client.module.decrypt_final(session, out),
        }
    }

    pub fn cancel(self, client: &Client, session: SessionHandle) {
        match self {
            Way::Encrypt => client.module.encrypt_cancel(session),
            Way::Decrypt => client.module.decrypt_cancel(session),
        }
        .expect("an operation that is given up");
    }

    /// Processes the input in one part, into a buffer of the length that the function asks for.
    pub fn whole(
        self,
        client: &Client,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.init(client, session, mechanism, key)?;
        let mut out = vec![0; self.once(client, session, data, Output::Length)?];
        let len = self.once(client, session, data, Output::Buffer(&mut out))?;
        out.truncate(len);
        Ok(out)
    }

    /// Processes the input in parts, whose lengths are those of the list in turn. Each buffer has
    /// the length that the function asks for.
    pub fn parts(
        self,
        client: &Client,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
        lengths: &[usize],
    ) -> Result<Vec<u8>, Error> {
        self.init(client, session, mechanism, key)?;
        let (mut all, mut rest) = (Vec::new(), data);
        for len in lengths.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at((*len).min(rest.len()));
            let mut out = vec![0; self.update(client, session, part, Output::Length)?];
            let len = self.update(client, session, part, Output::Buffer(&mut out))?;
            all.extend_from_slice(&out[..len]);
            rest = after;
        }
        let mut out = vec![0; self.end(client, session, Output::Length)?];
        let len = self.end(client, session, Output::Buffer(&mut out))?;
        all.extend_from_slice(&out[..len]);
        Ok(all)
    }
}

/// Creates the key of the case. It has the same value each time.
fn key(client: &Client, session: SessionHandle, case: &Case) -> ObjectHandle {
    let template = key_object(ObjectClass::SECRET_KEY, case.key_type);
    client.create(session, &template.bytes(A::VALUE, &case.value())).expect("a key")
}

/// Runs a test with every case and every backend.
pub fn each_case(test: impl Fn(&Client, SessionHandle, &Case, ObjectHandle)) {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for case in cases() {
            println!("{}", case.mechanism.info.id);
            test(&client, session, &case, key(&client, session, &case));
        }
    });
}

#[test]
fn one_part_and_odd_parts_give_the_same_ciphertext_and_decrypt() {
    each_case(|client, session, case, key| {
        for len in &case.messages {
            let data = message(*len);
            let sealed =
                Way::Encrypt.whole(client, session, &case.mechanism, key, &data).expect("a ciphertext");
            assert_ne!(sealed[..(*len).min(sealed.len())], data, "{len}");
            let opened = Way::Decrypt.whole(client, session, &case.mechanism, key, &sealed);
            assert_eq!(opened.as_ref(), Ok(&data), "{len}");
            for lengths in [&[1, 3, 17][..], &[16], &[5, 64, 31]] {
                let parts = Way::Encrypt.parts(client, session, &case.mechanism, key, &data, lengths);
                assert_eq!(parts.as_ref(), Ok(&sealed), "{len} in {lengths:?}");
                let parts = Way::Decrypt.parts(client, session, &case.mechanism, key, &sealed, lengths);
                assert_eq!(parts.as_ref(), Ok(&data), "{len} in {lengths:?}");
            }
        }
        let sealed = Way::Encrypt.whole(client, session, &case.mechanism, key, &message(case.messages[0]));
        assert_eq!(sealed.expect("a ciphertext").len(), case.messages[0] + case.growth);
    });
}

#[test]
fn both_backends_give_the_same_ciphertext() {
    let mut all = Vec::new();
    for provider in jeton::backend::Provider::ALL {
        let client = Client::new(provider);
        let session = client.user();
        all.push(
            cases()
                .iter()
                .map(|case| {
                    let data = message(*case.messages.last().expect("a length"));
                    let key = key(&client, session, case);
                    Way::Encrypt.whole(&client, session, &case.mechanism, key, &data).expect("a ciphertext")
                })
                .collect::<Vec<_>>(),
        );
    }
    assert!(all.windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn short_buffers_keep_a_cipher_active_and_return_the_needed_length() {
    each_case(|client, session, case, key| {
        let data = message(*case.messages.last().expect("a length"));
        let sealed = Way::Encrypt.whole(client, session, &case.mechanism, key, &data).expect("a ciphertext");
        for (way, input, output) in [(Way::Encrypt, &data, &sealed), (Way::Decrypt, &sealed, &data)] {
            way.init(client, session, &case.mechanism, key).expect("an operation");
            let bound = way.once(client, session, input, Output::Length).expect("a length");
            assert!(bound >= output.len());
            for short in [0, 1, output.len() - 1] {
                let refused = way.once(client, session, input, Output::Buffer(&mut vec![0; short]));
                let Err(Error::BufferTooSmall { needed }) = refused else { panic!("{way:?} {refused:?}") };
                assert!((output.len()..=bound).contains(&needed), "{way:?} {needed}");
            }
            // The output fits and is written, although the announced bound does not fit.
            let mut exact = vec![0; output.len()];
            assert_eq!(way.once(client, session, input, Output::Buffer(&mut exact)), Ok(output.len()));
            assert_eq!(&exact, output);
            let over = way.once(client, session, input, Output::Length);
            assert_eq!(over, Err(Error::OperationNotInitialized));

            // The rest of a longer buffer stays unchanged.
            way.init(client, session, &case.mechanism, key).expect("an operation");
            let mut room = vec![0xaa; bound + 40];
            assert_eq!(way.once(client, session, input, Output::Buffer(&mut room)), Ok(output.len()));
            assert_eq!(&room[..output.len()], output);
            assert_eq!(room[bound..], [0xaa; 40]);
        }
    });
}

#[test]
fn a_short_buffer_loses_no_bytes_of_update_or_final() {
    each_case(|client, session, case, key| {
        let data = message(*case.messages.last().expect("a length"));
        let sealed = Way::Encrypt.whole(client, session, &case.mechanism, key, &data).expect("a ciphertext");
        for (way, input, output) in [(Way::Encrypt, &data, &sealed), (Way::Decrypt, &sealed, &data)] {
            way.init(client, session, &case.mechanism, key).expect("an operation");
            let needed = way.update(client, session, input, Output::Length).expect("a length");
            if needed > 0 {
                let refused = way.update(client, session, input, Output::Buffer(&mut vec![0; needed - 1]));
                assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
            }
            let mut all = vec![0; needed];
            let written = way.update(client, session, input, Output::Buffer(&mut all)).expect("a part");
            all.truncate(written);
            let mixed = way.once(client, session, input, Output::Length);
            assert_eq!(mixed, Err(Error::OperationActive));
            let left = output.len() - written;
            assert!(way.end(client, session, Output::Length).expect("a length") >= left);
            if left > 0 {
                let refused = way.end(client, session, Output::Buffer(&mut vec![0; left - 1]));
                assert!(
                    matches!(refused, Err(Error::BufferTooSmall { needed }) if needed >= left),
                    "{way:?}"
                );
            }
            let mut end = vec![0; left];
            assert_eq!(way.end(client, session, Output::Buffer(&mut end)), Ok(left), "{way:?}");
            all.extend_from_slice(&end);
            assert_eq!(&all, output);
            assert_eq!(way.end(client, session, Output::Length), Err(Error::OperationNotInitialized));
        }
    });
}

#[test]
fn an_invalid_ciphertext_is_refused_and_the_next_operation_works() {
    each_case(|client, session, case, key| {
        let mechanism = &case.mechanism;
        let data = message(case.messages[0]);
        let sealed = Way::Encrypt.whole(client, session, mechanism, key, &data).expect("a ciphertext");
        for at in [0, sealed.len() - 1] {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            let outcome = Way::Decrypt.whole(client, session, mechanism, key, &flipped);
            let in_parts = Way::Decrypt.parts(client, session, mechanism, key, &flipped, &[7, 16]);
            match case.flipped {
                Some(error) => assert_eq!((outcome, in_parts), (Err(error), Err(error))),
                None => assert!(outcome != Ok(data.clone()) && in_parts != Ok(data.clone())),
            }
            Way::Decrypt.cancel(client, session);
            let good = Way::Decrypt.whole(client, session, mechanism, key, &sealed);
            assert_eq!(good.as_ref(), Ok(&data));
            let good = Way::Decrypt.parts(client, session, mechanism, key, &sealed, &[7, 16]);
            assert_eq!(good.as_ref(), Ok(&data));
        }
    });
}

#[test]
fn messages_of_a_wrong_length_are_refused_and_end_the_operation() {
    each_case(|client, session, case, key| {
        for len in &case.refused {
            for (way, error) in
                [(Way::Encrypt, Error::DataLenRange), (Way::Decrypt, Error::EncryptedDataLenRange)]
            {
                let len = if way == Way::Decrypt { len + case.growth } else { *len };
                let mut room = vec![0; len + 32];
                way.init(client, session, &case.mechanism, key).expect("an operation");
                let refused = way.once(client, session, &message(len), Output::Buffer(&mut room));
                assert_eq!(refused, Err(error), "{way:?} {len}");
                let over = way.once(client, session, &message(len), Output::Buffer(&mut room));
                assert_eq!(over, Err(Error::OperationNotInitialized));

                let refused = way.parts(client, session, &case.mechanism, key, &message(len), &[7]);
                assert_eq!(refused, Err(error), "{way:?} {len}");
                assert_eq!(way.end(client, session, Output::Length), Err(Error::OperationNotInitialized));
            }
        }
        if case.flipped.is_some() {
            let mut room = [0; 64];
            for short in [0, case.growth.min(8) - 1] {
                Way::Decrypt.init(client, session, &case.mechanism, key).expect("an operation");
                let refused = Way::Decrypt.once(client, session, &message(short), Output::Buffer(&mut room));
                assert_eq!(refused, Err(Error::EncryptedDataLenRange), "{short}");
            }
            // An operation that fails without data leaves no state either.
            let data = message(case.messages[0]);
            let sealed =
                Way::Encrypt.whole(client, session, &case.mechanism, key, &data).expect("a ciphertext");
            Way::Decrypt.init(client, session, &case.mechanism, key).expect("an operation");
            let refused = Way::Decrypt.end(client, session, Output::Buffer(&mut room));
            assert_eq!(refused, Err(Error::EncryptedDataLenRange));
            assert_eq!(Way::Decrypt.whole(client, session, &case.mechanism, key, &sealed), Ok(data));
        }
    });
}

#[test]
fn invalid_padding_is_an_invalid_ciphertext() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (key, _) = pair(&client, session, Kind::Aes, &none());
        let (bare, padded) = (with_iv(M::AES_CBC, &IV), with_iv(M::AES_CBC_PAD, &IV));
        for last in [&[0; 16][..], &[17; 16], &[&[1; 14][..], &[2, 3]].concat()] {
            let last = [&[5; 16], last].concat();
            let sealed = Way::Encrypt.whole(&client, session, &bare, key, &last).expect("a ciphertext");
            let refused = Way::Decrypt.whole(&client, session, &padded, key, &sealed);
            assert_eq!(refused, Err(Error::EncryptedDataInvalid));
            let refused = Way::Decrypt.parts(&client, session, &padded, key, &sealed, &[16]);
            assert_eq!(refused, Err(Error::EncryptedDataInvalid));
            let over = Way::Decrypt.end(&client, session, Output::Length);
            assert_eq!(over, Err(Error::OperationNotInitialized));
        }
        for len in [0, 15, 33] {
            let refused = Way::Decrypt.whole(&client, session, &padded, key, &message(len));
            assert_eq!(refused, Err(Error::EncryptedDataLenRange), "{len}");
        }
    });
}

#[test]
fn a_re_armed_cipher_starts_over() {
    each_case(|client, session, case, key| {
        let data = message(case.messages[0]);
        let sealed = Way::Encrypt.whole(client, session, &case.mechanism, key, &data).expect("a ciphertext");
        for (way, input, output) in [(Way::Encrypt, &data, &sealed), (Way::Decrypt, &sealed, &data)] {
            for _ in 0..3 {
                way.init(client, session, &case.mechanism, key).expect("an operation");
                let refused = way.init(client, session, &case.mechanism, key);
                assert_eq!(refused, Err(Error::OperationActive));
                let mut room = vec![0; input.len() + 64];
                way.update(client, session, input, Output::Buffer(&mut room)).expect("a part");
                way.cancel(client, session);
                assert_eq!(way.whole(client, session, &case.mechanism, key, input).as_ref(), Ok(output));
                assert_eq!(
                    way.parts(client, session, &case.mechanism, key, input, &[3]).as_ref(),
                    Ok(output)
                );
            }
        }
    });
}

/// Returns the parameter with another initialisation vector, nonce, counter or associated data.
/// `None` if there is no such value.
pub fn altered(params: &Params) -> Option<Params> {
    let Params::Cipher(scheme) = params else { return None };
    let mut scheme = scheme.clone();
    match &mut scheme {
        CipherScheme::AesCbc { iv, .. }
        | CipherScheme::AesCts { iv }
        | CipherScheme::AesOfb { iv }
        | CipherScheme::AesCfb { iv, .. }
        | CipherScheme::AesXts { tweak: iv }
        | CipherScheme::AesCtr { block: iv, .. } => iv[0] ^= 1,
        CipherScheme::Des3Cbc { iv, .. } | CipherScheme::AesKw { iv: Some(iv) } => iv[0] ^= 1,
        CipherScheme::AesKwp { iv: Some(iv) } => iv[0] ^= 1,
        CipherScheme::ChaCha20 { nonce, .. } => nonce[0] ^= 1,
        CipherScheme::Aead { nonce, aad, .. } => {
            nonce[0] ^= 1;
            *aad = b"other".as_slice().into();
        }
        _ => return None,
    }
    Some(Params::Cipher(scheme))
}

#[test]
fn another_parameter_starts_a_new_cipher() {
    each_case(|client, session, case, key| {
        let Some(params) = altered(&case.mechanism.params) else { return };
        let other = Mechanism { params, ..case.mechanism.clone() };
        let data = message(case.messages[0]);
        let fresh =
            |mechanism, way: Way, input: &[u8]| way.whole(client, client.open(), mechanism, key, input);
        let [one, two] = [&case.mechanism, &other]
            .map(|mechanism| fresh(mechanism, Way::Encrypt, &data).expect("a ciphertext"));
        assert_ne!(one, two);
        for _ in 0..2 {
            for (mechanism, sealed) in [(&case.mechanism, &one), (&other, &two)] {
                assert_eq!(Way::Encrypt.whole(client, session, mechanism, key, &data).as_ref(), Ok(sealed));
                assert_eq!(
                    Way::Decrypt.parts(client, session, mechanism, key, sealed, &[3]).as_ref(),
                    Ok(&data)
                );
                assert_eq!(Way::Decrypt.whole(client, session, mechanism, key, sealed).as_ref(), Ok(&data));
                assert_eq!(
                    Way::Encrypt.parts(client, session, mechanism, key, &data, &[3]).as_ref(),
                    Ok(sealed)
                );
            }
        }
    });
}

#[test]
fn keys_encrypt_only_with_the_right_usage_and_type() {
    each_case(|client, session, case, key| {
        let template = key_object(ObjectClass::SECRET_KEY, case.key_type).bytes(A::VALUE, &case.value());
        for (way, flag) in [(Way::Encrypt, A::ENCRYPT), (Way::Decrypt, A::DECRYPT)] {
            let idle = client.create(session, &template.clone().flag(flag, false)).expect("a key");
            let refused = way.init(client, session, &case.mechanism, idle);
            assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
            let (other, _) = pair(client, session, Kind::Generic, &none().flag(flag, true));
            assert_eq!(way.init(client, session, &case.mechanism, other), Err(Error::KeyTypeInconsistent));
            assert_eq!(way.init(client, session, &plain(M::AES_CMAC), key), Err(Error::MechanismInvalid));
            assert_eq!(
                way.init(client, session, &case.mechanism, ObjectHandle(0)),
                Err(Error::KeyHandleInvalid)
            );
            let mechanism = Mechanism { params: Params::Bit(1), ..plain(case.mechanism.info.id) };
            assert_eq!(way.init(client, session, &mechanism, key), Err(Error::MechanismParamInvalid));
            let over = way.once(client, session, b"", Output::Length);
            assert_eq!(over, Err(Error::OperationNotInitialized));
        }
    });
}

/// PKCS#11 3.2, `CK_GCM_PARAMS`: the initialisation vector and the additional data may have up to
/// 2^32-1 bytes. The token accepts a vector of up to 64 KiB and additional data of up to 4 MiB.
#[test]
fn gcm_accepts_long_initialisation_vectors_and_additional_data() {
    let of_first = std::cell::RefCell::new(None);
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES);
        let key = client.create(session, &template.bytes(A::VALUE, &[3; 16])).expect("a key");
        let (iv, aad) = (message(1 << 16), message(4 << 20));
        let gcm = |iv: &[u8]| Mechanism {
            params: aead_params(AeadScheme::AesGcm, iv, &aad, 16, 0),
            ..plain(M::AES_GCM)
        };
        let sealed = Way::Encrypt.whole(&client, session, &gcm(&iv), key, b"data").expect("a ciphertext");
        let opened = Way::Decrypt.whole(&client, session, &gcm(&iv), key, &sealed);
        assert_eq!(opened.as_deref(), Ok(&b"data"[..]));
        assert_eq!(*of_first.borrow_mut().get_or_insert_with(|| sealed.clone()), sealed);
    });
}
