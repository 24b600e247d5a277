//! The keys of tokens with their dates, for an administrator who must replace them in time.

use std::collections::HashMap;

use cryptoki_sys::*;
use der::Decode;
use jeton_client::safe_text::hex;
use serde::Serialize;
use x509_cert::Certificate;

use crate::audit::lives::Lives;
use crate::client::{Attribute, ObjectHandle, Session, TokenInfo};
use crate::object::{key_type, uses};
use crate::time::{date, iso, seconds_of};

pub mod cbom;

/// A key: a private key with its public half, a secret key, or a public key whose private key the
/// session cannot see. The fields have the same names in JSON and CSV.
#[derive(Clone, Debug, Serialize)]
pub struct Key {
    /// The label of the token.
    pub token: String,
    pub serial: String,
    /// `private`, `public` or `secret-key`.
    pub class: &'static str,
    /// For example `RSA 2048`, `EC P-256` or `AES 256`.
    pub key_type: String,
    pub label: String,
    /// `CKA_ID` in hexadecimal digits.
    pub id: String,
    /// When the key was made, if the audit log has it.
    pub created: Option<String>,
    /// `CKA_START_DATE` and `CKA_END_DATE`.
    pub start: Option<String>,
    pub end: Option<String>,
    /// The number of times that a private key may still be used, if it is limited.
    pub uses_left: Option<CK_ULONG>,
    /// When the key was used last, if the audit log has it.
    pub last_use: Option<String>,
    /// The subject and the end of the certificate with the same ID that ends last.
    pub certificate: Option<String>,
    pub certificate_end: Option<String>,
    /// `CKA_UNIQUE_ID` of the object.
    pub unique_id: String,
}

impl Key {
    /// Returns whether the key or its certificate ends at this time or before, in seconds since
    /// 1970. A key with an end date can be used on that day.
    pub fn ends_until(&self, time: i64) -> bool {
        let certificate = self.certificate_end.as_deref().and_then(seconds_of);
        self.has_ended(time) || certificate.is_some_and(|end| end <= time)
    }

    /// Returns whether the last day of the key is over at this time.
    pub fn has_ended(&self, time: i64) -> bool {
        const DAY: i64 = 86_400;
        self.end.as_deref().and_then(seconds_of).is_some_and(|start| start + DAY <= time)
    }
}

/// A certificate of a key.
struct Validity {
    subject: String,
    /// Seconds since 1970.
    end: i64,
}

/// Lists the keys that a session can see, sorted by label and ID.
pub fn keys(session: &Session, token: &TokenInfo, lives: &Lives) -> Result<Vec<Key>, crate::Error> {
    let find = |class| session.find(&[Attribute::number(CKA_CLASS, class)]);
    let certificates = certificates(session, &find(CKO_CERTIFICATE)?);
    let list = |class, name| -> Result<Vec<Key>, crate::Error> {
        let objects = find(class)?.into_iter();
        Ok(objects.map(|object| describe(session, token, lives, &certificates, (object, name))).collect())
    };
    let mut all = list(CKO_PRIVATE_KEY, "private")?;
    let mut public = list(CKO_PUBLIC_KEY, "public")?;
    public.retain(|public| {
        let is_half =
            |key: &Key| !key.id.is_empty() && key.id == public.id && key.key_type == public.key_type;
        !all.iter().any(is_half)
    });
    all.extend(public);
    all.extend(list(CKO_SECRET_KEY, "secret-key")?);
    all.sort_by(|one, other| (&one.label, &one.id).cmp(&(&other.label, &other.id)));
    Ok(all)
}

fn describe(
    session: &Session,
    token: &TokenInfo,
    lives: &Lives,
    certificates: &HashMap<String, Validity>,
    (object, class): (ObjectHandle, &'static str),
) -> Key {
    let text = |kind| String::from_utf8_lossy(&session.bytes(object, kind)).into_owned();
    let (label, id, unique_id) = (text(CKA_LABEL), hex(&session.bytes(object, CKA_ID)), text(CKA_UNIQUE_ID));
    // Calls name the private half of a pair, which this session may not see.
    let life = match class {
        "public" => lives.of_name(&token.serial, &label, &id),
        _ => lives.of_object(&token.serial, &unique_id),
    };
    let certificate = certificates.get(&id).filter(|_| !id.is_empty());
    Key {
        token: token.label.clone(),
        serial: token.serial.clone(),
        class,
        key_type: key_type(session, object),
        created: life.made.map(date),
        start: iso(&session.bytes(object, CKA_START_DATE)),
        end: iso(&session.bytes(object, CKA_END_DATE)),
        uses_left: Some(object)
            .filter(|_| class == "private")
            .and_then(|key| uses(session, key))
            .map(|uses| uses.left),
        last_use: life.last_use.map(date),
        certificate: certificate.map(|certificate| certificate.subject.clone()),
        certificate_end: certificate.map(|certificate| date(certificate.end)),
        label,
        id,
        unique_id,
    }
}

/// Returns the certificate of each ID that ends last. Leaves out what is not X.509.
fn certificates(session: &Session, objects: &[ObjectHandle]) -> HashMap<String, Validity> {
    let mut newest: HashMap<String, Validity> = HashMap::new();
    for object in objects {
        let Ok(certificate) = Certificate::from_der(&session.bytes(*object, CKA_VALUE)) else { continue };
        let tbs = certificate.tbs_certificate;
        let end = tbs.validity.not_after.to_unix_duration().as_secs() as i64;
        let id = hex(&session.bytes(*object, CKA_ID));
        if newest.get(&id).is_none_or(|known| known.end < end) {
            newest.insert(id, Validity { subject: tbs.subject.to_string(), end });
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(end: Option<&str>, certificate_end: Option<&str>) -> Key {
        Key {
            token: String::new(),
            serial: String::new(),
            class: "private",
            key_type: String::new(),
            label: String::new(),
            id: String::new(),
            created: None,
            start: None,
            end: end.map(str::to_owned),
            uses_left: None,
            last_use: None,
            certificate: None,
            certificate_end: certificate_end.map(str::to_owned),
            unique_id: String::new(),
        }
    }

    #[test]
    fn a_key_ends_after_its_last_day_and_with_its_certificate() {
        let start = seconds_of("2026-11-29").expect("a day");
        assert!(!key(Some("2026-11-29"), None).ends_until(start + 86_399));
        assert!(key(Some("2026-11-29"), None).ends_until(start + 86_400));
        let certificate = Some("2026-11-29T01:00:00Z");
        assert!(!key(None, certificate).ends_until(start + 3_599));
        assert!(key(None, certificate).ends_until(start + 3_600));
        assert!(key(Some("2099-01-01"), certificate).ends_until(start + 3_600));
        assert!(!key(None, None).ends_until(i64::MAX));
    }
}
