//! PKCS#11 URIs (RFC 7512): names for tokens and objects that other programs understand too.

use der::asn1::AnyRef;
use der::{Encode, Sequence, Tag};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use zeroize::Zeroizing;

use crate::Error;

const SCHEME: &str = "pkcs11:";
/// RFC 7512, 2.3: the characters of a value that are percent-encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// RFC 7512, 2.3: the characters of `pin-source` that are percent-encoded. `:` and `/` stay, so
/// that programs recognise `file:/path`.
const ENCODED_IN_QUERY: &AsciiSet = &ENCODED.remove(b':').remove(b'/');

/// The URI of a key as OpenSSL's pkcs11-provider reads it from a key file. Its project defines the
/// structure, and other projects write it too.
#[derive(Sequence)]
struct ProviderUri<'a> {
    /// A VisibleString, for which the crate has no type.
    description: AnyRef<'a>,
    uri: String,
}

/// The label of a PEM file with a [`Uri::provider_der`].
pub const PROVIDER_LABEL: &str = "PKCS#11 PROVIDER URI";

/// A URI with the attributes that this tool uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uri {
    pub token: Option<String>,
    pub serial: Option<String>,
    pub model: Option<String>,
    /// `manufacturer`: of the token.
    pub manufacturer: Option<String>,
    pub slot: Option<u64>,
    pub slot_manufacturer: Option<String>,
    pub slot_description: Option<String>,
    pub library_manufacturer: Option<String>,
    pub library_description: Option<String>,
    /// `library-version`: the major and the minor number.
    pub library_version: Option<(u8, u8)>,
    pub object: Option<String>,
    pub id: Option<Vec<u8>>,
    /// `type`: `private`, `public`, `cert`, `secret-key` or `data`.
    pub class: Option<String>,
    /// `pin-source`: a file with the PIN.
    pub pin_source: Option<String>,
    pub pin_value: Option<Zeroizing<String>>,
    /// `module-path`: the file of a module.
    pub module_path: Option<String>,
    /// `module-name`: the name of a module, without its ending.
    pub module_name: Option<String>,
}

impl Uri {
    /// Returns whether a text begins like a PKCS#11 URI. The rest may be invalid.
    pub fn is(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
    }

    /// Reads a URI. Ignores attributes that [`Uri`] has no field for, as RFC 7512 allows.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Usage(format!("{text:?} is not a PKCS#11 URI: {reason}"));
        if !Self::is(text) {
            return Err(wrong("it does not begin with pkcs11:"));
        }
        let (path, query) = text[SCHEME.len()..].split_once('?').unwrap_or((&text[SCHEME.len()..], ""));
        let mut uri = Self::default();
        let mut seen = Vec::new();
        let attributes = path.split(';').chain(query.split('&')).filter(|attribute| !attribute.is_empty());
        for attribute in attributes {
            let (name, value) =
                attribute.split_once('=').ok_or_else(|| wrong("an attribute has no value"))?;
            if seen.contains(&name) {
                return Err(wrong("an attribute occurs twice"));
            }
            seen.push(name);
            let bytes: Vec<u8> = percent_decode_str(value).collect();
            uri.take(name, bytes).ok_or_else(|| wrong(&format!("the value of {name} is malformed")))?;
        }
        Ok(uri)
    }

    fn take(&mut self, name: &str, bytes: Vec<u8>) -> Option<()> {
        if name == "id" {
            self.id = Some(bytes);
            return Some(());
        }
        let text = String::from_utf8(bytes).ok();
        let place = match name {
            "slot-id" => {
                self.slot = Some(text?.parse().ok()?);
                return Some(());
            }
            "library-version" => {
                let text = text?;
                let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
                self.library_version = Some((major.parse().ok()?, minor.parse().ok()?));
                return Some(());
            }
            "type" => {
                let known = ["private", "public", "cert", "secret-key", "data"];
                self.class = Some(text.filter(|class| known.contains(&class.as_str()))?);
                return Some(());
            }
            "token" => &mut self.token,
            "serial" => &mut self.serial,
            "model" => &mut self.model,
            "manufacturer" => &mut self.manufacturer,
            "slot-manufacturer" => &mut self.slot_manufacturer,
            "slot-description" => &mut self.slot_description,
            "library-manufacturer" => &mut self.library_manufacturer,
            "library-description" => &mut self.library_description,
            "object" => &mut self.object,
            "pin-source" => &mut self.pin_source,
            "pin-value" => {
                self.pin_value = Some(Zeroizing::new(text?));
                return Some(());
            }
            "module-path" => &mut self.module_path,
            "module-name" => &mut self.module_name,
            _ => return Some(()),
        };
        *place = Some(text?);
        Some(())
    }

    /// Returns the DER of the key file with which OpenSSL's pkcs11-provider uses the key of this
    /// URI.
    pub fn provider_der(&self) -> Result<Vec<u8>, Error> {
        let description = AnyRef::new(Tag::VisibleString, b"PKCS#11 Provider URI v1.0")?;
        Ok(ProviderUri { description, uri: self.to_string() }.to_der()?)
    }
}

/// Writes the attributes, but neither the PIN nor the module.
impl std::fmt::Display for Uri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts = [
            ("library-manufacturer", &self.library_manufacturer),
            ("library-description", &self.library_description),
            ("library-version", &self.library_version.map(|(major, minor)| format!("{major}.{minor}"))),
            ("slot-id", &self.slot.map(|slot| slot.to_string())),
            ("slot-manufacturer", &self.slot_manufacturer),
            ("slot-description", &self.slot_description),
            ("model", &self.model),
            ("manufacturer", &self.manufacturer),
            ("serial", &self.serial),
            ("token", &self.token),
            ("object", &self.object),
            ("type", &self.class),
        ];
        let mut attributes: Vec<_> = texts
            .into_iter()
            .filter_map(|(name, value)| {
                let value = value.as_ref()?;
                Some(format!("{name}={}", percent_encode(value.as_bytes(), ENCODED)))
            })
            .collect();
        // RFC 7512, 2.3: every byte of an ID is encoded.
        let id = self.id.iter().map(|id| id.iter().map(|byte| format!("%{byte:02X}")).collect::<String>());
        attributes.extend(id.map(|id| format!("id={id}")));
        write!(f, "{SCHEME}{}", attributes.join(";"))?;
        match &self.pin_source {
            Some(source) => {
                write!(f, "?pin-source={}", percent_encode(source.as_bytes(), ENCODED_IN_QUERY))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7512, 3.
    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let uri = Uri::parse(
            "pkcs11:token=The%20Software%20PKCS%2311%20Softtoken;manufacturer=Snake%20Oil,%20Inc.;model=1.0;\
             object=my-certificate;type=cert;id=%69%95%3E%5C%F4%BD%EC%91;serial=?pin-source=file:/etc/token_pin",
        )
        .expect("an example");
        assert_eq!(uri.token.as_deref(), Some("The Software PKCS#11 Softtoken"));
        assert_eq!(uri.id.as_deref(), Some(&b"\x69\x95\x3e\x5c\xf4\xbd\xec\x91"[..]));
        assert_eq!(uri.serial.as_deref(), Some(""));
        assert_eq!(uri.pin_source.as_deref(), Some("file:/etc/token_pin"));
        for text in [
            "pkcs11:",
            "pkcs11:object=my-pubkey;type=public",
            "pkcs11:object=my-key;type=private?pin-source=file:/etc/token",
            "pkcs11:slot-description=Sun%20Metaslot",
            "pkcs11:library-manufacturer=Snake%20Oil,%20Inc.;slot-id=327?pin-value=the-pin",
            "pkcs11:object=my-sign-key;type=private?module-name=mypkcs11",
            "pkcs11:token=Software%20PKCS%2311%20softtoken;x-muppet=cookie%3c%5e%3emonster!",
        ] {
            assert!(Uri::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_wrong_uri_is_refused() {
        for text in [
            "pkcs12:",
            "pkcs11:token",
            "pkcs11:token=a;token=b",
            "pkcs11:type=key",
            "pkcs11:slot-id=x",
            "pkcs11:library-version=1.x",
            "pkcs11:token=%ff",
        ] {
            assert!(Uri::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_uri_is_read_as_it_was_written() {
        let uri = Uri {
            library_manufacturer: Some("a=b".to_owned()),
            library_version: Some((1, 20)),
            slot: Some(7),
            slot_description: Some("x".to_owned()),
            token: Some("a b;c?\u{e9}".to_owned()),
            id: Some(vec![0, 255]),
            class: Some("private".to_owned()),
            pin_source: Some("file:/etc/a b?&".to_owned()),
            ..Uri::default()
        };
        assert!(uri.to_string().ends_with("?pin-source=file:/etc/a%20b%3F%26"), "{uri}");
        assert_eq!(Uri::parse(&uri.to_string()).expect("a URI"), uri);
    }
}
