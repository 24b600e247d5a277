//! TLS: the published vector of the pseudo-random function of TLS 1.2, and known answers that
//! Python computes:
//!
//! ```python
//! def p(h, s, seed, n):
//!     a, o = seed, b""
//!     while len(o) < n:
//!         a = hmac.new(s, a, h).digest()
//!         o += hmac.new(s, a + seed, h).digest()
//!     return o[:n]
//! def prf12(s, label, seed, n): return p("sha256", s, label + seed, n)
//! def prf10(s, label, seed, n):
//!     h = (len(s) + 1) // 2
//!     halves = zip(p("md5", s[:h], label + seed, n), p("sha1", s[-h:], label + seed, n))
//!     return bytes(x ^ y for x, y in halves)
//! ```
//!
//! with `client, server = bytes(range(32)), bytes(range(32, 64))` and `pre = bytes([3, 3]) +
//! bytes(range(46))`. OpenSSL computes the same first master secret: `openssl kdf -keylen 48
//! -kdfopt digest:MD5-SHA1 -kdfopt hexsecret:… -kdfopt seed:"master secret" -kdfopt hexseed:…
//! TLS1-PRF`.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::tls::{Randoms, TlsPrf};
use jeton::mechanism::{Mechanism, Params};
use jeton::module::{Connection, Derived, Output};

use crate::derive::{base, derive, shown, value};
use crate::keys::key_object;
use crate::support::{Attributes, Client, each_backend, hex, none, plain};

/// The mechanism whose MAC is as long as the caller's buffer.
pub const OF_ANY_LENGTH: M = M::TLS_PRF_GENERAL;

/// The mechanisms that derive and have a case here.
pub const DERIVING: [M; 12] = [
    M::TLS_MASTER_KEY_DERIVE,
    M::TLS_MASTER_KEY_DERIVE_DH,
    M::TLS_KEY_AND_MAC_DERIVE,
    M::TLS_PRF,
    M::TLS12_MASTER_KEY_DERIVE,
    M::TLS12_MASTER_KEY_DERIVE_DH,
    M::TLS12_EXTENDED_MASTER_KEY_DERIVE,
    M::TLS12_EXTENDED_MASTER_KEY_DERIVE_DH,
    M::TLS12_KEY_AND_MAC_DERIVE,
    M::TLS12_KEY_SAFE_DERIVE,
    M::TLS_KDF,
    M::TLS12_KDF,
];
/// The mechanisms that generate and have a case here.
pub const GENERATING: [M; 2] = [M::SSL3_PRE_MASTER_KEY_GEN, M::TLS_PRE_MASTER_KEY_GEN];

const SHA256: TlsPrf = TlsPrf::Hash(Hash::Sha256);
const MASTER10: &str =
    "73ca30c0d219536fb65a2a40e7d888ab3248a570eb18690c7332d25b75e7792d97ee35deba30e9b83ae1ba7823b7c6ab";
const MASTER12: &str =
    "d2c76cb7c4c86a909737874ceccddc57f2c211e2a4c6f44532306227ba5173089e3a96968874bb7e9ff14f3ed8c6a41a";

fn bytes(from: u8, to: u8) -> Vec<u8> {
    (from..to).collect()
}

fn randoms() -> Randoms {
    Randoms { client: bytes(0, 32).into(), server: bytes(32, 64).into() }
}

fn pre_master() -> Vec<u8> {
    [vec![3, 3], bytes(0, 46)].concat()
}

fn secret(client: &Client, session: SessionHandle, value: &[u8]) -> ObjectHandle {
    base(client, session, KeyType::GENERIC_SECRET, value)
}

fn run(
    client: &Client,
    session: SessionHandle,
    (id, params): (M, Params),
    key: ObjectHandle,
    template: &Attributes,
) -> Result<Derived, Error> {
    let mechanism = Mechanism { params, ..plain(id) };
    client.module.derive(session, &mechanism, key, &template.template(), &mut [])
}

#[test]
fn master_secrets_match_known_values_and_return_the_version() {
    let master = |prf| Params::TlsMaster { prf, randoms: randoms() };
    let session_hash: Box<[u8]> = bytes(0, 32).into();
    let extended = |prf| Params::TlsExtendedMaster { prf, session_hash: session_hash.clone() };
    let sha384 = TlsPrf::Hash(Hash::Sha384);
    // prf(pre, b"extended master secret", client, 48)
    let known_extended =
        "c585881c670108a5077923d6e239aea5222913c609b06009a2d9f865178e0e012f148f1514e3e9b4b5d4854a689ea856";
    // Both with bytes(range(47)) as the pre-master secret, the second with SHA-384.
    let dh10 =
        "88c83931666fdf5fb9764e6133a3363f623339449ce85da6fc2b04d5d727e850da4611080f9211acadb1abc678b3a668";
    let dh12 =
        "70d46b4109811ecf0cbc811124ebdd6fcfdd8770d6990b19539686f39acd54750979cdfb827a4b574618a5dc1a4b77bf";
    let cases = [
        (M::TLS_MASTER_KEY_DERIVE, master(TlsPrf::Md5Sha1), pre_master(), MASTER10),
        (M::TLS12_MASTER_KEY_DERIVE, master(SHA256), pre_master(), MASTER12),
        (M::TLS12_EXTENDED_MASTER_KEY_DERIVE, extended(SHA256), pre_master(), known_extended),
        (M::TLS_MASTER_KEY_DERIVE_DH, master(TlsPrf::Md5Sha1), bytes(0, 47), dh10),
        (M::TLS12_MASTER_KEY_DERIVE_DH, master(sha384), bytes(0, 47), dh12),
        (M::TLS12_EXTENDED_MASTER_KEY_DERIVE_DH, extended(SHA256), pre_master(), known_extended),
    ];
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (id, params, pre, known) in &cases {
            let key = secret(&client, session, pre);
            let mechanism = || (*id, params.clone());
            let Ok(Derived::Master(made, version)) = run(&client, session, mechanism(), key, &shown()) else {
                panic!("a master secret")
            };
            assert_eq!(client.read(session, made, A::VALUE), Ok(hex(known)), "{id}");
            let rsa =
                known_extended != *known && pre.len() == 48 || *id == M::TLS12_EXTENDED_MASTER_KEY_DERIVE;
            assert_eq!(version, rsa.then_some([3, 3]));
            if rsa {
                let short = secret(&client, session, &pre[1..]);
                let refused = derive(&client, session, mechanism(), short, &none());
                assert_eq!(refused, Err(Error::KeySizeRange));
            }
            let aes = base(&client, session, KeyType::AES, &[1; 32]);
            assert_eq!(derive(&client, session, mechanism(), aes, &none()), Err(Error::KeyTypeInconsistent));
            // "these facts are all implicit in the mechanism, there is no need to specify any of
            // them"
            let generic = none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0).number(A::VALUE_LEN, 48);
            derive(&client, session, mechanism(), key, &generic).expect("a key");
            for wrong in [
                none().number(A::KEY_TYPE, KeyType::SHA256_HMAC.0),
                none().number(A::VALUE_LEN, 32),
                none().number(A::VALUE_LEN, 49),
            ] {
                let refused = derive(&client, session, mechanism(), key, &wrong);
                assert_eq!(refused, Err(Error::TemplateInconsistent));
            }
        }
    });
}

/// The version of a pre-master secret is its first two bytes. A rotation can move any two bytes
/// there.
#[test]
fn a_copy_of_an_unreadable_key_returns_no_version() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let hidden = none().flag(A::SENSITIVE, true).flag(A::DERIVE, true).bytes(A::VALUE, &pre_master());
        let hidden = hidden.and(&key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET));
        let hidden = client.create(session, &hidden).expect("a key");
        let master = Params::TlsMaster { prf: SHA256, randoms: randoms() };
        let extended = Params::TlsExtendedMaster { prf: SHA256, session_hash: bytes(0, 32).into() };
        let rotate = (M::EXTRACT_KEY_FROM_KEY, Params::Bit(16));
        let xor = (M::XOR_BASE_AND_DATA, Params::Data([0; 48].into()));
        for copying in [rotate, xor] {
            let length = none().number(A::VALUE_LEN, 48);
            let template = if copying.0 == M::EXTRACT_KEY_FROM_KEY { length } else { none() };
            let template = template.flag(A::DERIVE, true);
            let copy = derive(&client, session, copying, hidden, &template).expect("a key");
            for mechanism in [
                (M::TLS12_MASTER_KEY_DERIVE, master.clone()),
                (M::TLS12_EXTENDED_MASTER_KEY_DERIVE, extended.clone()),
            ] {
                let refused = derive(&client, session, mechanism, copy, &none());
                assert_eq!(refused, Err(Error::KeyTypeInconsistent));
            }
        }
    });
}

#[test]
fn a_tls12_master_secret_derives_only_its_keys() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let pre = secret(&client, session, &pre_master());
        let params = Params::TlsMaster { prf: SHA256, randoms: randoms() };
        let mechanism = (M::TLS12_MASTER_KEY_DERIVE, params);
        let master =
            derive(&client, session, mechanism.clone(), pre, &none().flag(A::DERIVE, true)).expect("a key");
        let hash = (M::SHA256_KEY_DERIVATION, Params::None);
        assert_eq!(derive(&client, session, hash, master, &none()), Err(Error::MechanismInvalid));
        let finished = Params::TlsMac { prf: SHA256, len: 12, server: true };
        let finished = Mechanism { params: finished, ..plain(M::TLS_MAC) };
        client.sign(session, &finished, master, b"hash").expect("a code");
        let more = none().bytes(A::ALLOWED_MECHANISMS, &M::SHA256_HMAC.0.to_ne_bytes());
        assert_eq!(derive(&client, session, mechanism, pre, &more), Err(Error::TemplateInconsistent));
    });
}

/// Derives the keys of a connection. Returns the connection, and the values of its keys and
/// initialisation vectors in one list of bytes.
fn connect(
    client: &Client,
    session: SessionHandle,
    mechanism: (M, Params),
    master: ObjectHandle,
    template: &Attributes,
) -> (Connection, Vec<u8>) {
    let Ok(Derived::Connection(connection)) = run(client, session, mechanism, master, template) else {
        panic!("a connection")
    };
    let mut block = Vec::new();
    for key in [connection.macs, connection.keys].into_iter().flatten().flatten() {
        block.extend(client.read(session, key, A::VALUE).expect("a value"));
    }
    connection.ivs.iter().for_each(|iv| block.extend_from_slice(iv));
    (connection, block)
}

#[test]
fn key_and_mac_derive_matches_known_values() {
    // prf10(master, b"key expansion", server + client, 104), prf12(…, 120)
    let block10 = "6a06b0a7aa62498c3a2aac29e8ef589289901b9489b9bd79ed3ea3c73884c3bdaba6bb0d62b61af771f04194e74a28c3\
                   d397dbe77cda1d2c4c2767646097aaede2f209114f8193995ef3c01e6f21bc3454adb093f3c156628c87c4a41ec6bfe4\
                   b5d4ff70b2f29ba2";
    let block12 = "cbd61a5bf8df1c58323cd4d603a37b7c08f8084d9e8217b4029be73d5640a3a44a1b2db43eac77d52d632a6f77b617aa\
                   8114066249251a25c33c7f6a5fcecb67af573e43fe17701f8ddb95124663cc7dfd461114d811b2ccfd8fa81fa6de6825\
                   09fb776dece9982774dd40f8455f870f2c809d0c2a8ea4c9";
    let keys =
        |prf, mac_len, iv_len| Params::TlsKeys { prf, randoms: randoms(), mac_len, key_len: 16, iv_len };
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (old, new) = (secret(&client, session, &hex(MASTER10)), secret(&client, session, &hex(MASTER12)));
        let aes = none().number(A::KEY_TYPE, KeyType::AES.0).label("a key");
        for (id, master, params, known) in [
            (M::TLS_KEY_AND_MAC_DERIVE, old, keys(TlsPrf::Md5Sha1, 20, 16), block10),
            (M::TLS12_KEY_AND_MAC_DERIVE, new, keys(SHA256, 32, 12), block12),
            (M::TLS12_KEY_SAFE_DERIVE, new, keys(SHA256, 32, 0), &block12[..192]),
        ] {
            let (made, block) = connect(&client, session, (id, params), master, &aes);
            assert_eq!(block, hex(known), "{id}");
            for key in made.keys.expect("keys") {
                assert_eq!(client.number(session, key, A::KEY_TYPE), KeyType::AES.0);
                let uses = [A::ENCRYPT, A::DECRYPT, A::DERIVE].map(|id| client.flag(session, key, id));
                assert_eq!(uses, [true; 3]);
                assert_eq!(client.read(session, key, A::LABEL).as_deref(), Ok(&b"a key"[..]));
            }
            for key in made.macs.expect("MAC keys") {
                assert_eq!(client.number(session, key, A::KEY_TYPE), KeyType::GENERIC_SECRET.0);
                let uses = [A::SIGN, A::VERIFY].map(|id| client.flag(session, key, id));
                assert_eq!(uses, [true; 2]);
                assert_eq!(client.read(session, key, A::LABEL).as_deref(), Ok(&[][..]));
            }
        }
        // An authenticated cipher needs no MAC keys, so the encryption keys come first.
        let id = M::TLS12_KEY_AND_MAC_DERIVE;
        let (made, block) = connect(&client, session, (id, keys(SHA256, 0, 4)), new, &aes);
        assert!(made.macs.is_none());
        assert_eq!(block, hex(block12)[..40]);
    });
}

#[test]
fn connection_keys_inherit_the_protection_of_the_master_secret() {
    let keys = || {
        let (randoms, prf) = (randoms(), SHA256);
        (M::TLS12_KEY_AND_MAC_DERIVE, Params::TlsKeys { prf, randoms, mac_len: 20, key_len: 16, iv_len: 4 })
    };
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let aes = none().number(A::KEY_TYPE, KeyType::AES.0).label("connection");
        for (sensitive, extractable) in [(true, false), (false, true)] {
            let template = none()
                .number(A::VALUE_LEN, 48)
                .flag(A::DERIVE, true)
                .flag(A::SENSITIVE, sensitive)
                .flag(A::EXTRACTABLE, extractable);
            let generate = plain(M::GENERIC_SECRET_KEY_GEN);
            let master = client.module.generate_key(session, &generate, &template.template());
            let master = master.expect("a key");
            let Ok(Derived::Connection(made)) = run(&client, session, keys(), master, &aes) else {
                panic!("a connection")
            };
            for key in [made.macs, made.keys].into_iter().flatten().flatten() {
                let read = [A::SENSITIVE, A::EXTRACTABLE, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE]
                    .map(|id| client.flag(session, key, id));
                assert_eq!(read, [sensitive, extractable, sensitive, !extractable]);
                client.module.destroy_object(session, key).expect("an object");
            }
            for wrong in [
                aes.clone().flag(A::SENSITIVE, !sensitive),
                aes.clone().flag(A::EXTRACTABLE, !extractable),
                aes.clone().number(A::VALUE_LEN, 32),
            ] {
                let refused = run(&client, session, keys(), master, &wrong).err();
                assert_eq!(refused, Some(Error::TemplateInconsistent));
            }
            let xts = none().number(A::KEY_TYPE, KeyType::AES_XTS.0).label("connection");
            assert_eq!(run(&client, session, keys(), master, &xts).err(), Some(Error::KeySizeRange));
        }
        // "none of the four keys will be created"
        assert_eq!(client.find(session, &none().number(A::VALUE_LEN, 20)), []);
        assert_eq!(client.find(session, &none().label("connection")), []);
        let short = secret(&client, session, &[1; 47]);
        assert_eq!(run(&client, session, keys(), short, &aes).err(), Some(Error::KeySizeRange));
    });
}

#[test]
fn tls_kdf_matches_known_values() {
    let context = |context: Option<&[u8]>, prf| Params::TlsKdf {
        prf,
        label: b"EXPERIMENTAL label".as_slice().into(),
        randoms: randoms(),
        context: context.map(Box::from),
    };
    let cases = [
        // prf12(master, label, client + server, 40)
        (
            MASTER12,
            context(None, SHA256),
            "7921549fa4d64203df0b6d7cb0537061fe1c204c3e0211e745294f08430fde913ba3b0a51948a509",
        ),
        // … client + server + b"\0\3ctx"
        (
            MASTER12,
            context(Some(b"ctx"), SHA256),
            "4e0956a1f157490a7ddf1ddd5c047e6f558e4338c67b83e7fa101199acd372a2cb65231ab6011774",
        ),
        // … client + server + b"\0\0"
        (
            MASTER12,
            context(Some(b""), SHA256),
            "6e3a39fca16a8ed986c13e5bbb4d4accfc96f6f2ee2b03a865a73a4c6808071ce541d12e84f5f739",
        ),
        (
            MASTER10,
            context(None, TlsPrf::Md5Sha1),
            "80fa05fbd9c96aa6cc65da11698cc9c783002befa47939e3183dc2cdd7f577c12e579a157527e3e8",
        ),
    ];
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (master, params, known) in &cases {
            let master = secret(&client, session, &hex(master));
            let sized = none().number(A::VALUE_LEN, 40);
            for id in [M::TLS_KDF, M::TLS12_KDF] {
                let mechanism = || (id, params.clone());
                assert_eq!(value(&client, session, mechanism(), master, &sized), Ok(hex(known)));
                let refused = derive(&client, session, mechanism(), master, &none());
                assert_eq!(refused, Err(Error::TemplateIncomplete));
            }
            client.set(session, master, &none().flag(A::SENSITIVE, true)).expect("a change");
            let refused = value(&client, session, (M::TLS_KDF, params.clone()), master, &sized);
            assert_eq!(refused, Err(Error::TemplateInconsistent));
        }
    });
}

/// The vector for P_SHA256 that was published on the TLS working group's list ("Test vectors for
/// TLS 1.2 PRF"). The test calls the exporter with the vector's seed as the client's random value.
#[test]
fn the_tls_prf_matches_its_published_vector() {
    let known = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af0fa022\
                 f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66";
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = secret(&client, session, &hex("9bbe436ba940f017b17652849a71db35"));
        let seed = hex("a0ba9f936cda311827a6f796ffd5198c");
        let randoms = Randoms { client: seed.into(), server: Box::default() };
        let label = b"test label".as_slice().into();
        let mechanism = (M::TLS_KDF, Params::TlsKdf { prf: SHA256, label, randoms, context: None });
        assert_eq!(
            value(&client, session, mechanism, key, &none().number(A::VALUE_LEN, 100)),
            Ok(hex(known))
        );
    });
}

#[test]
fn tls_mac_and_prf_match_known_values() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (master, prf, server, known) in [
            // prf12(master, b"server finished", client, 16)
            (MASTER12, SHA256, true, "506a9fa1a25c0ce93d0f82ac1a2e4005"),
            (MASTER12, SHA256, false, "9cf062dff913565864b0d93f"),
            (MASTER10, TlsPrf::Md5Sha1, false, "d0c28e794af5bf7b67c987ff"),
        ] {
            let (master, known) = (secret(&client, session, &hex(master)), hex(known));
            for id in [M::TLS_MAC, M::TLS12_MAC] {
                let params = Params::TlsMac { prf, len: known.len(), server };
                let mechanism = Mechanism { params, ..plain(id) };
                assert_eq!(client.sign(session, &mechanism, master, &bytes(0, 32)).as_ref(), Ok(&known));
                assert_eq!(client.verify(session, &mechanism, master, &bytes(0, 32), &known), Ok(()));
            }
        }
        // prf10(bytes(range(47)), b"label", b"seed", 21)
        let key = secret(&client, session, &bytes(0, 47));
        let (seed, label) = (b"seed".as_slice().into(), b"label".as_slice().into());
        let mechanism = (M::TLS_PRF, Params::TlsPrf { seed, label, len: 21 });
        let Ok(Derived::Output(output)) = run(&client, session, mechanism, key, &none()) else {
            panic!("bytes")
        };
        assert_eq!(output[..], hex("d3ac09c2c758a412f0701c8b70dc0c4012edf86618"));
        // The same through C_Sign, in a buffer of any length.
        let general = plain(OF_ANY_LENGTH);
        client.module.sign_init(session, &general, key).expect("an operation");
        let mut signed = [0; 21];
        assert_eq!(client.module.sign(session, b"labelseed", Output::Buffer(&mut signed)), Ok(21));
        assert_eq!(signed[..], output[..]);
        assert_eq!(client.verify(session, &general, key, b"labelseed", &output[..20]), Ok(()));
        signed[20] ^= 1;
        let wrong = client.verify(session, &general, key, b"labelseed", &signed);
        assert_eq!(wrong, Err(Error::SignatureInvalid));
    });
}

#[test]
fn a_pre_master_secret_begins_with_the_version() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for id in GENERATING {
            let make = |template: &Attributes| {
                let mechanism = Mechanism { params: Params::Version([3, 2]), ..plain(id) };
                client.module.generate_key(session, &mechanism, &template.template())
            };
            let keys = [(); 2].map(|()| make(&shown()).expect("a key"));
            let values = keys.map(|key| client.read(session, key, A::VALUE).expect("a value"));
            assert!(values.iter().all(|value| value.len() == 48 && value[..2] == [3, 2]));
            assert_ne!(values[0], values[1]);
            make(&none().number(A::VALUE_LEN, 48)).expect("a key");
            let wrong = [none().number(A::VALUE_LEN, 47), none().number(A::KEY_TYPE, KeyType::AES.0)];
            for wrong in wrong {
                assert_eq!(make(&wrong), Err(Error::TemplateInconsistent));
            }
        }
    });
}
