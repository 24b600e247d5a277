//! Keys from passwords (PKCS#11 3.2, "PKCS #5 PBKDF2 key generation").

use jeton_secret::Secret;

use super::cost::Cost;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::mechanism::field;
use crate::mechanism::{Mechanism, Params};
use crate::object::access::Rights;
use crate::object::attribute::{self, ObjectTypes};
use crate::object::required::{SIZES, refused};
use crate::object::template::Template;
use crate::object::value::number;
use crate::object::{Attributes, make};
use crate::token::ClientToken;

/// Maximum length of a generated key in bytes.
const MAX_LEN: usize = 4096;
/// Maximum number of iterations, summed over all blocks of output. It limits a call to a minute or
/// two.
const MAX_WORK: u64 = 1 << 26;

/// Generates the attributes of a key from a password. The template must name the key type.
pub(super) fn generate(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    template: &Template<'_>,
) -> Result<Attributes> {
    const CLAUSE: &str = "PKCS #5 PBKDF2 key generation: CKA_KEY_TYPE";
    let bytes = template.bytes(A::KEY_TYPE);
    let refused_type = |error| refused(A::KEY_TYPE, bytes.map(<[u8]>::len), CLAUSE, error);
    let key_type = bytes.ok_or_else(|| refused_type(Error::TemplateIncomplete))?;
    let key_type = KeyType(number(key_type).map_err(refused_type)?);
    ObjectTypes::of(ObjectClass::SECRET_KEY, Some(key_type.0))
        .ok_or_else(|| refused_type(Error::AttributeValueInvalid))?;
    let value = |len| {
        let len =
            usize::try_from(len).ok().filter(|len| *len <= MAX_LEN && attribute::len_fits(key_type, *len));
        let size = Some(size_of::<std::ffi::c_ulong>());
        let len = len.ok_or_else(|| refused(A::VALUE_LEN, size, SIZES, Error::KeySizeRange))?;
        stretch(token, &mechanism.params, len)
    };
    // "If the key type has a fixed length the CKA_VALUE_LEN attribute may be omitted". The
    // attribute rules contain that length as the default.
    make::generate_secret(template, key_type, mechanism.info.id, rights, value)
}

fn stretch(token: &ClientToken, params: &Params, len: usize) -> Result<Secret> {
    let Params::Pbkdf2 { hash, salt, iterations, password } = params else {
        return Err(Error::MechanismParamInvalid);
    };
    let blocks = len.div_ceil(hash.len()) as u64;
    if blocks * u64::from(*iterations) > MAX_WORK {
        return Err(field::refused("iterations: too many for the length of the key"));
    }
    let _permit = Cost::of_pbkdf2(blocks, *iterations, salt.len()).admit(token)?.wait();
    let mut out = Secret::zeroed(len);
    token.provider().macs.pbkdf2(*hash, &password.0, salt, *iterations, &mut out)?;
    Ok(out)
}
