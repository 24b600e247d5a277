//! IKE: known answers that Python computes. The PRF is `f = lambda k, m: hmac.new(k, m,
//! "sha256").digest()` or `cryptography`'s CMAC. The inputs are `key = bytes(range(32))`, `ni, nr,
//! g = b"Ni" * 8, b"Nr" * 8, bytes(range(64))`, and the cookies `b"cookie-icookie-r"`.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectHandle, SessionHandle};
use jeton::mechanism::{MacFunction, Params};

use crate::derive::{base, derive, shown, value};
use crate::support::{Client, each_backend, hex, none};

/// Every mechanism that has a case here.
pub const COVERED: [M; 4] =
    [M::IKE_PRF_DERIVE, M::IKE1_PRF_DERIVE, M::IKE1_EXTENDED_DERIVE, M::IKE2_PRF_PLUS_DERIVE];

const SHA256: MacFunction = MacFunction::Hmac(Hash::Sha256);

fn bytes(count: u8) -> Vec<u8> {
    (0..count).collect()
}

fn nonces() -> Box<[u8]> {
    [b"Ni".repeat(8), b"Nr".repeat(8)].concat().into()
}

/// Creates the base key, and the key whose value is g^xy.
fn keys(client: &Client, session: SessionHandle) -> (ObjectHandle, ObjectHandle) {
    (
        base(client, session, KeyType::GENERIC_SECRET, &bytes(32)),
        base(client, session, KeyType::GENERIC_SECRET, &bytes(64)),
    )
}

#[test]
fn prf_derive_matches_known_values() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (key, shared) = keys(&client, session);
        let of = |prf, data_as_key, new_key| {
            (M::IKE_PRF_DERIVE, Params::IkePrf { prf, data_as_key, nonces: nonces(), new_key })
        };
        let own = base(&client, session, KeyType::SHA256_HMAC, &bytes(32));
        let aes = base(&client, session, KeyType::AES, &bytes(16));
        for (mechanism, key, known) in [
            // f(ni + nr, g)
            (
                of(SHA256, true, None),
                shared,
                "4387e273ebd5dfe98396a8f0e34770ff0a24df377f1f5f63a4f2aaec6837b222",
            ),
            // f(key, ni + nr)
            (
                of(SHA256, false, None),
                key,
                "a7350ffb27e7ea14a55502b5bb8c9eda1043b5e5e84b2593c27ea032fd127def",
            ),
            // f(key, g + ni + nr)
            (
                of(SHA256, false, Some(shared)),
                own,
                "bea67ec4d0df59fa48388b793a9260a68b3d3dcfb39b96af2bce38021cfcb651",
            ),
            // cmac(cmac(bytes(16), ni + nr), g): RFC 4615, 3
            (of(MacFunction::AesCmac, true, None), shared, "c7ca73f6c1f9ce063cf53b172fbcf9d8"),
            // cmac(key[:16], ni + nr)
            (of(MacFunction::AesCmac, false, None), aes, "d34097c5ecf531b2559f1c875ec209b7"),
        ] {
            let known = hex(known);
            assert_eq!(value(&client, session, mechanism.clone(), key, &none()).as_ref(), Ok(&known));
            let made = derive(&client, session, mechanism.clone(), key, &none()).expect("a key");
            let key_type = if known.len() == 16 { KeyType::AES } else { KeyType::SHA256_HMAC };
            assert_eq!(client.number(session, made, A::KEY_TYPE), key_type.0);
            let shorter = none().number(A::VALUE_LEN, known.len() as u64 - 8);
            let generic = shorter.number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0);
            assert_eq!(derive(&client, session, mechanism, key, &generic), Err(Error::KeySizeRange));
        }
        let refused = derive(&client, session, of(MacFunction::AesCmac, false, None), key, &none());
        assert_eq!(refused, Err(Error::KeyTypeInconsistent));
        let refused = derive(&client, session, of(SHA256, true, None), aes, &none());
        assert_eq!(refused, Err(Error::KeyTypeInconsistent));
        let refused = derive(&client, session, of(SHA256, false, Some(aes)), key, &none());
        assert_eq!(refused, Err(Error::KeyTypeInconsistent));
        let refused = derive(&client, session, of(SHA256, false, Some(ObjectHandle(0))), key, &none());
        assert_eq!(refused, Err(Error::KeyHandleInvalid));
        let refused = derive(&client, session, of(MacFunction::AesGmac, true, None), shared, &none());
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
    });
}

/// RFC 4434, 4: AES-XCBC-PRF-128 with keys of 16, 10 and 18 bytes, which are the nonces here.
#[test]
fn aes_xcbc_takes_keys_of_every_length() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let message = base(&client, session, KeyType::GENERIC_SECRET, &bytes(20));
        let long = [bytes(16), vec![0xed, 0xcb]].concat();
        for (key, known) in [
            (bytes(16), "47f51b4564966215b8985c63055ed308"),
            (bytes(10), "0fa087af7d866e7653434e602fdde835"),
            (long, "8cd3c93ae598a9803006ffb67c40e9e4"),
        ] {
            let nonces = key.into();
            let params =
                Params::IkePrf { prf: MacFunction::AesXcbc(16), data_as_key: true, nonces, new_key: None };
            let got = value(&client, session, (M::IKE_PRF_DERIVE, params), message, &none());
            assert_eq!(got, Ok(hex(known)));
        }
    });
}

#[test]
fn ike1_prf_derive_matches_known_values() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (key, shared) = keys(&client, session);
        let of = |previous, number| {
            let cookies = b"cookie-icookie-r".as_slice().into();
            (M::IKE1_PRF_DERIVE, Params::Ike1Prf { prf: SHA256, shared, previous, cookies, number })
        };
        let generic = none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0);
        // d = f(key, g + cookies + b"\0"), a = f(key, d + g + cookies + b"\1")
        let d = hex("46ab0deae17e00fee9338b3d937b3ff76dd8a858a1c3d2f39499165314fc5930");
        let a = hex("b62fbe2341a71b4184bc3ab0e3c4f223caf3e8a93030f1c7512b0f1c556431af");
        let chained = generic.clone().flag(A::DERIVE, true).and(&shown());
        let made = derive(&client, session, of(None, 0), key, &chained).expect("a key");
        assert_eq!(client.read(session, made, A::VALUE), Ok(d));
        assert_eq!(value(&client, session, of(Some(made), 1), key, &generic).as_ref(), Ok(&a));
        let cut = generic.clone().number(A::VALUE_LEN, 20);
        assert_eq!(value(&client, session, of(Some(made), 1), key, &cut), Ok(a[..20].to_vec()));
        let longer = generic.number(A::VALUE_LEN, 33);
        assert_eq!(value(&client, session, of(Some(made), 1), key, &longer), Err(Error::KeySizeRange));
        assert_eq!(derive(&client, session, of(None, 0), key, &none()), Err(Error::TemplateIncomplete));
    });
}

#[test]
fn ike_extended_and_prf_plus_derive_match_known_values() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (key, shared) = keys(&client, session);
        let first = |shared, extra: &[u8]| {
            (M::IKE1_EXTENDED_DERIVE, Params::Ike1Extended { prf: SHA256, shared, extra: extra.into() })
        };
        let second = |seed_key| {
            let seed = b"seed".as_slice().into();
            (M::IKE2_PRF_PLUS_DERIVE, Params::Ike2PrfPlus { prf: SHA256, seed_key, seed })
        };
        let cases = [
            // K1 = f(key, b"\0"), K2 = f(key, K1)
            (
                first(None, b""),
                "e711546e3faad4c7c4aa756bc26cad6abea8241984a0f6b0839c70ca61c4ef88d7d5b72e4532e11d1238fbcb0854c7db",
            ),
            // Without a second key and extra data, a key that is not longer than the PRF's output
            // consists of the first bytes of the base key.
            (first(None, b""), "000102030405060708090a0b0c0d0e0f"),
            (first(None, b"extra"), "7eace3c4348343e7b9eff3538eefac5afcdf0da55c63d0cc"),
            // K1 = f(key, g + b"extra"), K2 = f(key, K1 + g + b"extra"), …
            (
                first(Some(shared), b"extra"),
                "804e186057c3433692928efd079fc6a8968044a597be090afca6f09dcb21ac816dbac2e5f5a744c9a11336cb84fbc43b\
                 6635815bce138adf36c3674a22e7d1cd4e5eae89438e71b9ea1f67307e5bc1a5",
            ),
            // T1 = f(key, b"seed\1"), T2 = f(key, T1 + b"seed\2"), …
            (
                second(None),
                "4fae78f37a588390e442a412cb463634d9dce644473eb1ea3b773f8b675f7a9406dc2d03dec3ba780e2a7dd6e0a052dd\
                 964a23269299ac540144a0d72e865d8ed03d2fdecaaaa847cf048a4653eb8b44",
            ),
            // The same with g + b"seed".
            (
                second(Some(shared)),
                "7d7ce22aa5974142b1b8036e3df2fd623e2346a11451a5b63bbb6bb078c229dbb0f16cc131aafa60e50f941671e4738a\
                 9665d59c05f5f7ec401482ad5590412e4e6143bffd9e6330befed86d2a17caef",
            ),
        ];
        for (mechanism, known) in cases {
            let known = hex(known);
            let sized = |len: usize| none().number(A::VALUE_LEN, len as u64);
            let got = value(&client, session, mechanism.clone(), key, &sized(known.len()));
            assert_eq!(got, Ok(known));
            value(&client, session, mechanism.clone(), key, &sized(255 * 32)).expect("a key");
            let longer = value(&client, session, mechanism.clone(), key, &sized(255 * 32 + 1));
            assert_eq!(longer, Err(Error::KeySizeRange));
            assert_eq!(derive(&client, session, mechanism, key, &none()), Err(Error::TemplateIncomplete));
        }
    });
}

#[test]
fn a_sensitive_base_key_derives_sensitive_keys() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (key, _) = keys(&client, session);
        client.set(session, key, &none().flag(A::SENSITIVE, true)).expect("a change");
        let extra = Box::default();
        let mechanism = (M::IKE1_EXTENDED_DERIVE, Params::Ike1Extended { prf: SHA256, shared: None, extra });
        let sized = none().number(A::VALUE_LEN, 16);
        let refused = derive(&client, session, mechanism.clone(), key, &sized.clone().and(&shown()));
        assert_eq!(refused, Err(Error::TemplateInconsistent));
        let made = derive(&client, session, mechanism, key, &sized).expect("a key");
        assert!(client.flag(session, made, A::SENSITIVE));
    });
}
