//! Shares of split keys: who may use one, and what none of PKCS#11's functions does with one.

use jeton::functions::{NewShare, ShareUse};
use jeton_secret::Secret;

use crate::derive::derive;
use crate::prelude::*;
use crate::samples::wrapping_key;

const VALUE: &[u8] = b"the value of a share";

/// Keeps a share with these attributes.
fn keep(client: &Client, session: SessionHandle, more: &Attributes) -> Result<Vec<ObjectHandle>> {
    let public = Kind::Ed25519.request().and(&none().flag(A::TOKEN, true).bytes(A::LABEL, b"split"));
    let private = none().flag(A::TOKEN, true).bytes(A::LABEL, b"split");
    let private = more.ids().fold(private, Attributes::without).and(more);
    let new = NewShare { public: &public.template(), private: &private.template(), with_public: true };
    // RFC 8032, 7.1, test 1.
    let point = std::array::from_fn(|at| {
        let hex = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex")
    });
    client.keep_share(session, &new, point, Secret::from(VALUE))
}

fn signs(client: &Client, session: SessionHandle, share: ObjectHandle) -> Result<Vec<u8>> {
    client.with_share(session, share, ShareUse::Signs, |value| Ok(value.to_vec()))
}

#[test]
fn a_share_is_a_private_key_that_shows_its_public_key_only() {
    let (client, session) = one_user();
    let [share, public] = keep(&client, session, &none()).expect("a share")[..] else { panic!("two") };
    assert_eq!(signs(&client, session, share), Ok(VALUE.to_vec()));
    for flag in [A::SENSITIVE, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE, A::LOCAL, A::SIGN, A::PRIVATE] {
        assert!(client.flag(session, share, flag), "{flag}");
    }
    for flag in [A::EXTRACTABLE, A::COPYABLE] {
        assert!(!client.flag(session, share, flag), "{flag}");
    }
    assert_eq!(client.read(session, share, A::VALUE), Err(Error::AttributeSensitive));
    for id in [A::PUBLIC_KEY_INFO, A::EC_PARAMS, A::EC_POINT, A::LABEL] {
        assert_eq!(client.read(session, share, id), client.read(session, public, id), "{id}");
    }
    client.logout(session).expect("a logout");
    assert!(signs(&client, session, share).is_err());
    client.login(session);
    let found = client.find_share(session, |share, value| (value == VALUE).then_some(share));
    let share = found.expect("a search").expect("a share");
    assert_eq!(signs(&client, session, share), Ok(VALUE.to_vec()));
}

#[test]
fn no_function_wraps_copies_derives_from_or_creates_a_share() {
    let (client, session) = one_user();
    let share = keep(&client, session, &none()).expect("a share")[0];
    for mechanism in [M::AES_KEY_WRAP_KWP, M::AES_KEY_WRAP_PAD] {
        let by = wrapping_key(&client, session);
        let wrapped = client.wrap(session, &plain(mechanism), by, share);
        assert_eq!(wrapped, Err(Error::KeyUnextractable), "{mechanism}");
    }
    assert_eq!(client.copy(session, share, &none()), Err(Error::ActionProhibited));
    for id in [A::EXTRACTABLE, A::COPYABLE] {
        let changed = client.set(session, share, &none().flag(id, true));
        assert_eq!(changed, Err(Error::AttributeReadOnly), "{id}");
    }
    client.set(session, share, &none().flag(A::DERIVE, true)).expect("a usage that no mechanism has");
    let data = Params::Data(b"0123456789abcdef"[..].into());
    let made = none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0).number(A::VALUE_LEN, 16);
    for mechanism in [M::CONCATENATE_BASE_AND_DATA, M::XOR_BASE_AND_DATA] {
        let derived = derive(&client, session, (mechanism, data.clone()), share, &made);
        assert!(derived.is_err(), "{mechanism}: {derived:?}");
    }
    assert_eq!(client.sign_init(session, &plain(M::EDDSA), share), Err(Error::KeyTypeInconsistent));
    let created = key_object(ObjectClass::PRIVATE_KEY, KeyType::JETON_SHARE);
    assert!(client.create(session, &created).is_err());
    let with_value = created.and(&none().bytes(A::VALUE, VALUE));
    assert_eq!(client.create(session, &with_value), Err(Error::AttributeReadOnly));
}

#[test]
fn a_template_that_shows_or_copies_a_share_is_refused() {
    let (client, session) = one_user();
    for more in [
        none().flag(A::EXTRACTABLE, true),
        none().flag(A::SENSITIVE, false),
        none().flag(A::COPYABLE, true),
        none().flag(A::TOKEN, false),
    ] {
        let kept = keep(&client, session, &more);
        assert_eq!(kept, Err(Error::TemplateInconsistent));
    }
}

#[test]
fn a_share_obeys_its_own_attributes() {
    let (client, session) = one_user();
    let share = keep(&client, session, &none().flag(A::SIGN, false)).expect("a share")[0];
    assert_eq!(signs(&client, session, share), Err(Error::KeyFunctionNotPermitted));
    let always = none().flag(A::ALWAYS_AUTHENTICATE, true);
    let share = keep(&client, session, &always).expect("a share")[0];
    assert_eq!(signs(&client, session, share), Err(Error::UserNotLoggedIn));
    let share = keep(&client, session, &none().number(A::JETON_USES_LEFT, 2)).expect("a share")[0];
    let prepares = client.with_share(session, share, ShareUse::Prepares, |_| Ok(()));
    assert_eq!(prepares, Ok(()));
    assert!(signs(&client, session, share).is_ok() && signs(&client, session, share).is_ok());
    assert!(signs(&client, session, share).is_err());
    // A whole key, and an invalid handle.
    let (_, whole) = pair(&client, session, Kind::Ed25519, &none());
    assert_eq!(signs(&client, session, whole), Err(Error::KeyTypeInconsistent));
    assert_eq!(signs(&client, session, ObjectHandle(9_999)), Err(Error::KeyHandleInvalid));
}
