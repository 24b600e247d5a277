//! PBKDF2: lengths, types and numbers of iterations that are refused. The known answers are in
//! `conformance/src/mechanisms/generation.rs`.

use jeton::mechanism::password::Password;
use jeton::secret::Secret;

use crate::prelude::*;

#[test]
fn the_template_sets_the_type_of_a_password_key() {
    let (client, session) = one_user();
    let make = |iterations, kind: Option<KeyType>, len: Option<u64>| {
        let password = Password(Secret::from(&b"password"[..]));
        let params = Params::Pbkdf2 { hash: Hash::Sha1, salt: Box::from(*b"salt"), iterations, password };
        let template = kind.map_or(none(), |kind| none().number(A::KEY_TYPE, kind.0));
        let template = len.map_or(template.clone(), |len| template.number(A::VALUE_LEN, len));
        let mechanism = Mechanism { params, ..plain(M::PKCS5_PBKD2) };
        let key = client.module.generate_key(session, &mechanism, &template.template())?;
        Ok(client.number(session, key, A::VALUE_LEN))
    };
    let generic = Some(KeyType::GENERIC_SECRET);
    for (iterations, kind, len, answer) in [
        (1, Some(KeyType::AES), Some(24), Ok(24)),
        // The template may omit a length that the key type fixes.
        (1, Some(KeyType::CHACHA20), None, Ok(32)),
        (1, None, Some(32), Err(Error::TemplateIncomplete)),
        (1, Some(KeyType::AES), None, Err(Error::TemplateIncomplete)),
        (1, Some(KeyType::AES), Some(20), Err(Error::KeySizeRange)),
        (1, Some(KeyType::RSA), Some(32), Err(Error::AttributeValueInvalid)),
        (1, generic, Some(0), Err(Error::KeySizeRange)),
        (1, generic, Some(4097), Err(Error::KeySizeRange)),
        (1, generic, Some(u64::MAX), Err(Error::KeySizeRange)),
        (u32::MAX, generic, Some(20), Err(Error::MechanismParamInvalid)),
        // A key of many blocks multiplies the number of iterations.
        (1 << 20, generic, Some(4096), Err(Error::MechanismParamInvalid)),
    ] {
        assert_eq!(make(iterations, kind, len), answer, "{kind:?} {len:?}");
    }
}
