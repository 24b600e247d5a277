//! The names of a certificate's holder (RFC 5280, 4.2.1.6; RFC 9525), and name constraints (RFC
//! 5280, 4.2.1.10).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use const_oid::ObjectIdentifier;
use const_oid::db::rfc3280::EMAIL_ADDRESS;
use const_oid::db::rfc4519::COMMON_NAME;
use der::asn1::{Ia5String, OctetString};
use der::{Any, Encode, Tag, Tagged};
use iri_string::types::UriStr;
use jeton_client::safe_text::is_obeyed;
use unicode_normalization::UnicodeNormalization;
use x509_cert::TbsCertificate;
use x509_cert::ext::pkix::constraints::name::GeneralSubtree;
use x509_cert::ext::pkix::name::{GeneralName, OtherName};
use x509_cert::ext::pkix::{NameConstraints, SubjectAltName};
use x509_cert::name::{Name, RelativeDistinguishedName};

use crate::Error;

/// The user principal name of a smart card: an `otherName` with a UTF8String.
const UPN: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.20.2.3");
/// No host is below this domain (RFC 2606).
const NOWHERE: &str = ".invalid";

/// Reads a name of the command line: `dns:`, `ip:`, `email:`, `uri:` or `upn:`, and the value.
pub fn general_name(text: &str) -> Result<GeneralName, Error> {
    let wrong = || {
        Error::Usage(format!("{text:?} is not a name; write dns:, ip:, email:, uri: or upn: before a name"))
    };
    let (kind, value) = text.split_once(':').ok_or_else(wrong)?;
    let ascii = || Ia5String::new(value).map_err(|_| wrong());
    let name = match kind.to_ascii_lowercase().as_str() {
        "dns" => GeneralName::DnsName(ascii()?),
        "email" => GeneralName::Rfc822Name(ascii()?),
        "uri" => GeneralName::UniformResourceIdentifier(ascii()?),
        "ip" => GeneralName::IpAddress(OctetString::new(octets(value.parse().map_err(|_| wrong())?))?),
        "upn" => {
            let value = Any::new(Tag::Utf8String, value.as_bytes())?;
            GeneralName::OtherName(OtherName { type_id: UPN, value })
        }
        _ => return Err(wrong()),
    };
    if is_valid(&name) { Ok(name) } else { Err(wrong()) }
}

/// Reads a constraint of the command line: `dns:DOMAIN`, `ip:ADDRESS/BITS`, `email:HOST`,
/// `uri:HOST`, `dn:NAME`. A dot before a host means the hosts below it.
pub fn constraint(text: &str) -> Result<GeneralName, Error> {
    let wrong = || {
        Error::Usage(format!(
            "{text:?} is not a constraint; write dns:DOMAIN, ip:ADDRESS/BITS, email:HOST, uri:HOST or dn:NAME"
        ))
    };
    let (kind, value) = text.split_once(':').ok_or_else(wrong)?;
    let host = || match is_host(value.strip_prefix('.').unwrap_or(value)) {
        true => Ia5String::new(value).map_err(|_| wrong()),
        false => Err(wrong()),
    };
    Ok(match kind.to_ascii_lowercase().as_str() {
        "dns" => GeneralName::DnsName(host()?),
        "email" if is_mailbox(value) => GeneralName::Rfc822Name(Ia5String::new(value)?),
        "email" => GeneralName::Rfc822Name(host()?),
        "uri" => GeneralName::UniformResourceIdentifier(host()?),
        "dn" => GeneralName::DirectoryName(value.parse().map_err(|_| wrong())?),
        "ip" => {
            let (address, bits) = value.split_once('/').ok_or_else(wrong)?;
            let address = octets(address.parse().map_err(|_| wrong())?);
            if is_mapped(&address) {
                return Err(wrong());
            }
            let bits: usize =
                bits.parse().ok().filter(|bits| *bits <= address.len() * 8).ok_or_else(wrong)?;
            let mask = (0..address.len())
                .map(|at| !0xff_u8.checked_shr((bits.saturating_sub(at * 8)) as u32).unwrap_or(0));
            let mask: Vec<u8> = mask.collect();
            let base = address.iter().zip(&mask).map(|(byte, mask)| byte & mask);
            GeneralName::IpAddress(OctetString::new(base.chain(mask.iter().copied()).collect::<Vec<_>>())?)
        }
        _ => return Err(wrong()),
    })
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the type of a name, as the command line writes it.
pub fn type_of(name: &GeneralName) -> &'static str {
    match name {
        GeneralName::DnsName(_) => "dns",
        GeneralName::IpAddress(_) => "ip",
        GeneralName::Rfc822Name(_) => "email",
        GeneralName::UniformResourceIdentifier(_) => "uri",
        GeneralName::DirectoryName(_) => "dn",
        GeneralName::OtherName(other) if other.type_id == UPN => "upn",
        _ => "other",
    }
}

/// Returns a name in the form of the command line, with every control character escaped.
pub fn shown(name: &GeneralName) -> String {
    format!("{}:{}", type_of(name), value_of(name).escape_debug())
}

fn value_of(name: &GeneralName) -> String {
    match name {
        GeneralName::DnsName(text)
        | GeneralName::Rfc822Name(text)
        | GeneralName::UniformResourceIdentifier(text) => text.to_string(),
        GeneralName::IpAddress(bytes) => match *bytes.as_bytes() {
            [a, b, c, d] => IpAddr::from([a, b, c, d]).to_string(),
            ref bytes => <[u8; 16]>::try_from(bytes)
                .map_or_else(|_| format!("{} bytes", bytes.len()), |bytes| IpAddr::from(bytes).to_string()),
        },
        GeneralName::DirectoryName(name) => name.to_string(),
        GeneralName::OtherName(other) => String::from_utf8_lossy(other.value.value()).into_owned(),
        _ => String::new(),
    }
}

/// Returns whether the text is the subject of a certificate, its common name, or one of the other
/// names, with or without its type. What is compared is what the certificate says, decoded.
pub fn is_called(certificate: &TbsCertificate, text: &str) -> Result<bool, Error> {
    let names = certificate.get::<SubjectAltName>()?.map(|(_, names)| names.0).unwrap_or_default();
    let mut values = names.iter().map(|name| (type_of(name), value_of(name)));
    let is_name = values.any(|(kind, value)| {
        let is_value = |text: &str| match kind {
            "dns" => canonical(&value) == canonical(text),
            "ip" => value.parse::<IpAddr>().is_ok_and(|value| text.parse() == Ok(value)),
            _ => value == text,
        };
        is_value(text) || text.split_once(':').is_some_and(|(typed, text)| typed == kind && is_value(text))
    });
    let subject = &certificate.subject;
    let mut attributes = subject.0.iter().flat_map(|part| part.0.iter());
    let is_common = attributes.any(|one| {
        one.oid == COMMON_NAME && text_of(&one.value).is_some_and(|value| folded(&value) == folded(text))
    });
    let is_subject = text.parse().is_ok_and(|name: Name| !name.0.is_empty() && same(&name, subject));
    Ok(is_name || is_common || is_subject)
}

/// Returns whether two names are equal. RFC 5280, 7.1: neither the type of a string nor case and
/// further blanks matter.
pub fn same(one: &Name, other: &Name) -> bool {
    prepared(one) == prepared(other)
}

fn prepared(name: &Name) -> Vec<BTreeSet<(ObjectIdentifier, Vec<u8>)>> {
    let value = |value: &Any| match text_of(value) {
        Some(text) => folded(&text).into_bytes(),
        None => value.to_der().unwrap_or_default(),
    };
    let part =
        |part: &RelativeDistinguishedName| part.0.iter().map(|one| (one.oid, value(&one.value))).collect();
    name.0.iter().map(part).collect()
}

/// Returns the form of a text in which equal parts of a name are equal.
fn folded(text: &str) -> String {
    let text = text.nfkc().collect::<String>().to_lowercase();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Fails with [`Error::Refused`] unless all names and the subject are what RFC 5280 allows.
pub fn check(subject: &Name, names: &[GeneralName]) -> Result<(), Error> {
    if let Some(wrong) = names.iter().find(|name| !is_valid(name)) {
        return Err(Error::Refused(format!("{} is not a valid name", shown(wrong))));
    }
    let mut values = subject.0.iter().flat_map(|part| part.0.iter()).map(|part| &part.value);
    let is_empty = subject.0.iter().any(|part| part.0.is_empty());
    if is_empty
        || !values.all(|value| has_its_letters(value) && text_of(value).is_some_and(|text| is_text(&text)))
    {
        let subject = subject.to_string();
        return Err(Error::Refused(format!("{:?} is not a valid subject", subject)));
    }
    // RFC 5280, A.1: ub-common-name.
    let mut parts = subject.0.iter().flat_map(|part| part.0.iter());
    let is_long = |text: String| text.chars().count() > 64;
    if parts.any(|part| part.oid == COMMON_NAME && text_of(&part.value).is_some_and(is_long)) {
        return Err(Error::Refused("a common name has at most 64 characters".to_owned()));
    }
    Ok(())
}

/// Returns whether a string has only letters of its type (X.680, 41). Go reads no certificate with
/// others, except * and &.
fn has_its_letters(value: &Any) -> bool {
    let is_letter = |byte: &u8| match value.tag() {
        Tag::PrintableString => byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte),
        Tag::NumericString => byte.is_ascii_digit() || *byte == b' ',
        Tag::Ia5String | Tag::VisibleString => byte.is_ascii(),
        _ => true,
    };
    value.value().iter().all(is_letter)
}

/// Returns whether a person sees the text as it is: without blanks at its ends, blanks other than
/// the space, and letters that are not seen or that turn the direction.
fn is_text(text: &str) -> bool {
    let is_seen = |letter: char| {
        let is_invisible = matches!(
            letter,
            '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        );
        !is_obeyed(letter) && !is_invisible && (letter == ' ' || !letter.is_whitespace())
    };
    // RFC 5280, A.1: ub-name.
    (1..=32768).contains(&text.len()) && text.trim() == text && text.chars().all(is_seen)
}

/// Returns the text of a DirectoryString or an IA5String.
fn text_of(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).ok(),
        Tag::BmpString if bytes.len().is_multiple_of(2) => {
            let units = bytes.chunks(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            String::from_utf16(&units.collect::<Vec<_>>()).ok()
        }
        // A TeletexString has other letters beyond ASCII, which no rule here looks at.
        Tag::PrintableString
        | Tag::Ia5String
        | Tag::NumericString
        | Tag::VisibleString
        | Tag::TeletexString => Some(bytes.iter().copied().map(char::from).collect()),
        _ => None,
    }
}

fn is_valid(name: &GeneralName) -> bool {
    match name {
        GeneralName::DnsName(name) => match name.as_str().strip_prefix("*.") {
            // RFC 9525, 6.3: a wildcard is the whole first label.
            Some(parent) => is_host(&format!("a.{parent}")) && parent.contains('.'),
            None => is_host(name.as_str()),
        },
        // Go takes 10.0.0.1 and ::ffff:10.0.0.1 for the same host, but constraints for two names.
        GeneralName::IpAddress(bytes) => {
            [4, 16].contains(&bytes.as_bytes().len()) && !is_mapped(bytes.as_bytes())
        }
        GeneralName::Rfc822Name(mailbox) => is_mailbox(mailbox.as_str()),
        GeneralName::UniformResourceIdentifier(uri) => is_uri(uri.as_str()),
        GeneralName::DirectoryName(name) => check(name, &[]).is_ok() && !name.0.is_empty(),
        GeneralName::OtherName(other) if other.type_id == UPN => {
            other.value.tag() == Tag::Utf8String
                && text_of(&other.value).is_some_and(|text| is_text(&text) && text.contains('@'))
        }
        _ => false,
    }
}

/// Returns whether these bytes are an IPv6 address with an IPv4 address in it (RFC 4291, 2.5.5.2).
fn is_mapped(bytes: &[u8]) -> bool {
    <[u8; 16]>::try_from(bytes).is_ok_and(|bytes| Ipv6Addr::from(bytes).to_ipv4_mapped().is_some())
}

/// Returns whether the text is a host of RFC 1123, 2.1, whose labels of other scripts are A-labels
/// (RFC 5890, 2.3.2.1). Programs take one that ends in a number for an address (URL Standard, 3.5).
fn is_host(name: &str) -> bool {
    let is_number = |label: &str| match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    };
    idna::domain_to_ascii_strict(name)
        .is_ok_and(|host| host.eq_ignore_ascii_case(name) && !host.rsplit('.').next().is_some_and(is_number))
}

/// Returns the form of a host in which equal hosts are equal: small letters, and no dot at the end.
fn canonical(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn is_mailbox(text: &str) -> bool {
    let is_atom = |atom: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
        !atom.is_empty() && atom.bytes().all(is_letter)
    };
    text.rsplit_once('@').is_some_and(|(local, host)| local.split('.').all(is_atom) && is_host(host))
}

/// Returns whether the text is a URI of RFC 3986 whose authority, if it has one, names a host. The
/// schemes of servers need one (RFC 9110, 4.2.1).
pub(crate) fn is_uri(text: &str) -> bool {
    const OF_SERVERS: [&str; 7] = ["http", "https", "ws", "wss", "ftp", "ldap", "ldaps"];
    let Ok(uri) = UriStr::new(text) else { return false };
    let is_of_server = OF_SERVERS.iter().any(|scheme| uri.scheme_str().eq_ignore_ascii_case(scheme));
    let is_address = |host: &str| host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    match host_of(uri) {
        Some(host) => is_host(host) || is_address(host),
        None => !is_of_server && !uri.path_str().is_empty(),
    }
}

/// Returns the host in the authority of a URI.
fn host_of(uri: &UriStr) -> Option<&str> {
    uri.authority_components().map(|authority| authority.host())
}

/// What a command spends on comparisons of names with constraints, in bytes: both may be very many.
pub const COMPARISONS: usize = 1 << 24;

/// Returns the first name of a holder that the constraints of a CA exclude. Of the subject, each
/// mailbox counts, and each name of a client in a common name. `budget` has what is left of
/// [`COMPARISONS`]; without enough of it, the names count as excluded.
pub fn excluded(
    constraints: &NameConstraints,
    subject: &Name,
    names: &[GeneralName],
    budget: &Cell<usize>,
) -> Option<String> {
    let mut all = names.to_vec();
    if !subject.0.is_empty() {
        all.push(GeneralName::DirectoryName(subject.clone()));
    }
    for part in subject.0.iter().flat_map(|part| part.0.iter()) {
        let (is_common, is_mailbox) = (part.oid == COMMON_NAME, part.oid == EMAIL_ADDRESS);
        match text_of(&part.value) {
            Some(text) if is_common => all.extend(in_common_name(text.trim())),
            // No constraint can say whether this mailbox is permitted.
            Some(text) if is_mailbox => match Ia5String::new(&text) {
                Ok(text) => all.push(GeneralName::Rfc822Name(text)),
                Err(_) => return Some(text),
            },
            None if is_common || is_mailbox => return Some(part.to_string()),
            _ => {}
        }
    }
    // Some clients accept a wildcard that RFC 9525 forbids.
    let is_odd = |name: &&GeneralName| {
        matches!(name, GeneralName::DnsName(host) if host.as_str().contains('*')) && !is_valid(name)
    };
    if let Some(odd) = all.iter().find(is_odd) {
        return Some(shown(odd));
    }
    let subtrees = || constraints.permitted_subtrees.iter().chain(&constraints.excluded_subtrees).flatten();
    let length = |name: &GeneralName| name.encoded_len().map_or(usize::MAX, |len| u32::from(len) as usize);
    let sum = |lengths: &mut dyn Iterator<Item = usize>| lengths.fold(0, usize::saturating_add);
    let of_names = sum(&mut all.iter().map(length)).saturating_mul(subtrees().count());
    let of_subtrees = sum(&mut subtrees().map(|one| length(&one.base))).saturating_mul(all.len());
    let Some(left) = budget.get().checked_sub(of_names.saturating_add(of_subtrees)) else {
        return Some(format!("{} names: with the constraints they are too many to compare", all.len()));
    };
    budget.set(left);
    all.iter().find(|name| !is_within(name, constraints)).map(shown)
}

/// Returns the names that a client may read in a common name: an address, a mailbox, or each host
/// with two labels, also beside a port or in a URI. Clients read hosts with the dots of all scripts
/// (UTS 46).
fn in_common_name(text: &str) -> Vec<GeneralName> {
    let address = text.trim_matches(['[', ']']).parse::<IpAddr>();
    let address = address.or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    let address = address.ok().and_then(|address| OctetString::new(octets(address)).ok());
    let mailbox = Ia5String::new(text).ok().filter(|text| is_mailbox(text.as_str()));
    let has_dns_letters = |letter: char| letter.is_ascii_alphanumeric() || "_-.*".contains(letter);
    let host = |part: &str| {
        let host = canonical(&idna::domain_to_ascii(part).unwrap_or_else(|_| part.to_owned()));
        let is_dns = host.contains(['.', '*']) && host.chars().all(has_dns_letters);
        Ia5String::new(&host).ok().filter(|_| is_dns).map(GeneralName::DnsName)
    };
    match mailbox {
        Some(mailbox) => vec![GeneralName::Rfc822Name(mailbox)],
        None => {
            let hosts = text.split([':', '/', '@', '?', '#']).filter_map(host);
            hosts.chain(address.map(GeneralName::IpAddress)).collect()
        }
    }
}

fn is_within(name: &GeneralName, constraints: &NameConstraints) -> bool {
    // Verifiers differ about which constraints are for an IPv4 address in an IPv6 address.
    if let GeneralName::IpAddress(bytes) = name
        && is_mapped(bytes.as_bytes())
    {
        let all = constraints.permitted_subtrees.iter().chain(&constraints.excluded_subtrees).flatten();
        return !all.into_iter().any(|subtree| matches!(subtree.base, GeneralName::IpAddress(_)));
    }
    let same_type = |subtree: &&GeneralSubtree| type_of(&subtree.base) == type_of(name);
    // RFC 5280, 4.2.1.10: the minimum is zero and there is no maximum.
    let known = |subtree: &GeneralSubtree| subtree.minimum == 0 && subtree.maximum.is_none();
    let permitted: Vec<_> = constraints.permitted_subtrees.iter().flatten().filter(same_type).collect();
    let mut excluded = constraints.excluded_subtrees.iter().flatten().filter(same_type);
    // No verifier restricts other names, so a CA with a list of permitted names has none.
    let is_free = !matches!(name, GeneralName::OtherName(_)) || constraints.permitted_subtrees.is_none();
    let is_permitted = permitted.is_empty()
        || permitted.iter().any(|one| known(one) && covers(&one.base, name, Side::Permitted));
    is_free && is_permitted && !excluded.any(|one| !known(one) || covers(&one.base, name, Side::Excluded))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Permitted,
    Excluded,
}

/// Returns whether a constraint covers the name: every host of a wildcard if the constraint
/// permits, and any of them if it excludes.
fn covers(base: &GeneralName, name: &GeneralName, side: Side) -> bool {
    let excludes = side == Side::Excluded;
    let below = |base: &str, host: &str| host.len() > base.len() && host.ends_with(base);
    let is_host_of = |base: &str, host: &str| match &*canonical(base) {
        // Verifiers differ about an empty constraint.
        "" => excludes,
        base if base.starts_with('.') => below(base, &canonical(host)),
        base => base == canonical(host),
    };
    match (base, name) {
        (GeneralName::DnsName(base), GeneralName::DnsName(name)) => {
            let (base, name) = (canonical(base.as_str()), canonical(name.as_str()));
            let domain = base.trim_start_matches('.');
            let is_domain = name == domain && (excludes || base == domain);
            let parent = name.strip_prefix("*.").filter(|_| excludes).unwrap_or_default();
            let is_one_of_the_wildcard = domain.split_once('.').is_some_and(|(_, above)| above == parent);
            domain.is_empty() || is_domain || below(&format!(".{domain}"), &name) || is_one_of_the_wildcard
        }
        (GeneralName::IpAddress(base), GeneralName::IpAddress(name)) => {
            let (base, name) = (base.as_bytes(), name.as_bytes());
            let (mut network, mut mask) = base.split_at(base.len() / 2);
            // An IPv4 network in an IPv6 network.
            if excludes && is_mapped(network) && name.len() == 4 {
                (network, mask) = (&network[12..], &mask[12..]);
            }
            let mut bytes = network.iter().zip(mask).zip(name);
            network.len() == name.len()
                && mask.len() == name.len()
                && bytes.all(|((network, mask), byte)| (network ^ byte) & mask == 0)
        }
        (GeneralName::Rfc822Name(base), GeneralName::Rfc822Name(name)) => {
            let (base, name) = (base.as_str(), name.as_str());
            let Some((local, host)) = name.rsplit_once('@') else { return excludes };
            match base.rsplit_once('@') {
                Some((wanted, at)) => canonical(at) == canonical(host) && wanted == local,
                None => is_host_of(base, host),
            }
        }
        (GeneralName::UniformResourceIdentifier(base), GeneralName::UniformResourceIdentifier(name)) => {
            match UriStr::new(name.as_str()).ok().and_then(host_of).filter(|host| is_host(host)) {
                Some(host) => is_host_of(base.as_str(), host),
                // RFC 5280, 4.2.1.10: such a URI does not pass a constraint.
                None => excludes,
            }
        }
        (GeneralName::DirectoryName(base), GeneralName::DirectoryName(name)) => {
            prepared(name).starts_with(&prepared(base))
        }
        _ => excludes,
    }
}

/// Returns the constraints of a CA: what the operator permits, and nothing else. A type of names
/// that `permitted` does not mention has no name that passes.
pub(crate) fn constraints(
    permitted: &[GeneralName],
    excluded: &[GeneralName],
) -> Result<Option<NameConstraints>, Error> {
    let (mut permitted, mut excluded) = (permitted.to_vec(), excluded.to_vec());
    let text = Ia5String::new;
    let missing = |kind| !permitted.is_empty() && !permitted.iter().any(|one| type_of(one) == kind);
    let [dns, ip, email, uri] = ["dns", "ip", "email", "uri"].map(missing);
    let mut exclude = |name| {
        // A renewed CA has it already.
        if !excluded.contains(&name) {
            excluded.push(name);
        }
    };
    if dns {
        exclude(GeneralName::DnsName(text("")?));
    }
    if ip {
        exclude(GeneralName::IpAddress(OctetString::new([0; 8])?));
        exclude(GeneralName::IpAddress(OctetString::new([0; 32])?));
    }
    // OpenSSL takes an empty constraint of these types for one that covers no name.
    if email {
        permitted.push(GeneralName::Rfc822Name(text(NOWHERE)?));
    }
    if uri {
        permitted.push(GeneralName::UniformResourceIdentifier(text(NOWHERE)?));
    }
    let subtrees = |names: Vec<GeneralName>| {
        let subtree = |base| GeneralSubtree { base, minimum: 0, maximum: None };
        (!names.is_empty()).then(|| names.into_iter().map(subtree).collect())
    };
    let constraints =
        NameConstraints { permitted_subtrees: subtrees(permitted), excluded_subtrees: subtrees(excluded) };
    let is_some = constraints.permitted_subtrees.is_some() || constraints.excluded_subtrees.is_some();
    Ok(is_some.then_some(constraints))
}

#[cfg(test)]
mod tests {
    use der::Decode;
    use x509_cert::attr::AttributeTypeAndValue;
    use x509_cert::name::RdnSequence;

    use super::*;

    fn budget() -> Cell<usize> {
        Cell::new(COMPARISONS)
    }

    fn name(tag: Tag, bytes: &[u8]) -> Name {
        let value = Any::new(tag, bytes).expect("short");
        let parts = vec![AttributeTypeAndValue { oid: COMMON_NAME, value }].try_into().expect("one");
        RdnSequence(vec![RelativeDistinguishedName(parts)])
    }

    #[test]
    fn names_that_no_certificate_may_have_are_refused() {
        const VALID: &str =
            "dns:www.example.org dns:*.example.org dns:localhost dns:xn--bcher-kva.example ip:10.0.0.1
            ip:::1 email:a.b+c@example.org uri:spiffe://example.org/x uri:urn:uuid:1 upn:a@EXAMPLE.ORG
            uri:https://[::1]:8443/ dns:1.example dns:0x7f.example";
        for name in VALID.split_whitespace() {
            assert!(general_name(name).is_ok(), "{name}");
        }
        const WRONG: &str = "dns:|dns:*|dns:*.org|dns:www.bank.test\0.example.org|dns:a b.example.org|dns:a..b|dns:.a.org|
            dns:a.org.|dns:a.*.example.org|dns:w*.example.org|dns:10.0.0.1|dns:a_b.example.org|dns:-a.example.org|
            dns:a\r.org|dns:ab--c.example.org|dns:xn--.example.org|dns:xn--a|dns:0x7f000001|dns:1.2.3.0X4|dns:a.0x|uri:https:evil.test://|uri:https:/evil/?x=://|
            uri:https://[example.org].evil.test/|uri:https://example.org:evil/|uri:http://a_b.org/|ip:10.0.0|ip:10.0.0.0/8|ip:::ffff:10.0.0.1|email:|email:a|email:a@|email:a b@example.org|email:@example.org|
            email:a@*.org|uri:|uri:a|uri:https://|uri:https:///x|uri:http://a b/|uri:1:x|upn:a|upn:|x:y|www.example.org";
        for name in WRONG.split('|') {
            assert!(general_name(name.trim_start()).is_err(), "{name:?}");
        }
        let label = "a".repeat(63);
        assert!(general_name(&format!("dns:{label}.org")).is_ok());
        assert!(general_name(&format!("dns:a{label}.org")).is_err());
        let host = [&label[..60], &label, &label, &label].join(".");
        assert!(general_name(&format!("dns:a{host}")).is_ok());
        assert!(general_name(&format!("dns:*.{host}")).is_err());
        assert!(general_name(&format!("dns:{}.org", [&*label; 4].join("."))).is_err());
        let three = GeneralName::IpAddress(OctetString::new([10, 0, 0]).expect("short"));
        assert!(check(&Name::default(), &[three]).is_err());
        for (subject, valid) in [
            ("CN=a", true),
            ("CN=Bücher", true),
            ("CN=a\\00b", false),
            ("CN=a\\0Ab", false),
            ("CN=a b", true),
            ("CN=a\\ ", false),
            ("CN=\\ a", false),
            ("CN=\\ ", false),
            ("CN=a\u{200b}b", false),
            ("CN=a\u{a0}b", false),
            ("CN=a\u{202e}b", false),
            ("CN=a\u{ad}b", false),
            ("CN=a\u{3164}", false),
        ] {
            let subject: Name = subject.parse().expect("a subject");
            assert_eq!(check(&subject, &[]).is_ok(), valid, "{subject}");
        }
        for (tag, bytes) in
            [(Tag::PrintableString, b"a@b"), (Tag::Ia5String, b"a\xe4b"), (Tag::NumericString, b"1a2")]
        {
            assert!(check(&name(tag, bytes), &[]).is_err(), "{tag}");
        }
        let long: Name = format!("CN={}", "a".repeat(32769)).parse().expect("a subject");
        let no_attribute = Name::from_der(&[0x30, 2, 0x31, 0]).expect("DER");
        assert!(check(&long, &[]).is_err() && check(&no_attribute, &[]).is_err());
    }

    #[test]
    fn constraints_of_each_type_cover_the_names_that_rfc_5280_says() {
        for row in include_str!("constraints.txt").lines().skip(1) {
            let [permitted, excluded, name, passes]: [&str; 4] =
                row.split(' ').collect::<Vec<_>>().try_into().expect(row);
            let subtrees = |text: &str| {
                let base = (text != "-").then(|| constraint(text).expect(text))?;
                Some(vec![GeneralSubtree { base, minimum: 0, maximum: None }])
            };
            let constraints = NameConstraints {
                permitted_subtrees: subtrees(permitted),
                excluded_subtrees: subtrees(excluded),
            };
            let found = super::excluded(
                &constraints,
                &Name::default(),
                &[general_name(name).expect(name)],
                &budget(),
            );
            assert_eq!(found.is_none().to_string(), passes, "{row}");
        }
    }

    #[test]
    fn a_common_name_is_excluded_in_every_form_of_its_host() {
        let excluded = constraints(&[], &[constraint("dns:secret.example.org").expect("a constraint")]);
        let constraints = excluded.expect("DER").expect("constraints");
        for (common, passes) in [
            ("secret.example.org", false),
            ("secret.example.org.", false),
            ("SECRET.example.org.", false),
            ("www.secret.example.org.", false),
            ("secret.example.org.:443", false),
            ("secret\u{3002}example\u{3002}org\u{3002}", false),
            ("secret\u{200b}.example.org", false),
            (" secret.example.org\u{a0}", false),
            ("https://secret.example.org/x", false),
            ("a@b@secret.example.org", false),
            ("secret.example.org:https", false),
            ("a@secret.example.org", true),
            ("*.example.org.", false),
            ("secret.example.org.test.", true),
            ("public.example.org.", true),
        ] {
            let subject = format!("CN={common}").parse().expect("a subject");
            assert_eq!(super::excluded(&constraints, &subject, &[], &budget()).is_none(), passes, "{common}");
        }
    }

    #[test]
    fn an_ipv4_address_in_an_ipv6_address_is_no_other_address() {
        let address = |text: &str| {
            let address: IpAddr = text.parse().expect("an address");
            GeneralName::IpAddress(OctetString::new(octets(address)).expect("short"))
        };
        assert!(constraint("ip:::ffff:10.0.0.0/104").is_err());
        // The base of a constraint of another CA program.
        let network = [octets("::ffff:10.0.0.0".parse().expect("an address")), vec![0xff; 13], vec![0; 3]];
        let mapped = GeneralName::IpAddress(OctetString::new(network.concat()).expect("short"));
        let base = |text: &str| if text == "mapped" { mapped.clone() } else { constraint(text).expect(text) };
        for (permitted, excluded, name, passes) in [
            ("", "ip:10.0.0.0/8", "::ffff:10.0.0.1", false),
            ("ip:10.0.0.0/8", "", "::ffff:10.0.0.1", false),
            ("ip:::/0", "", "::ffff:10.0.0.1", false),
            ("", "dns:example.org", "::ffff:10.0.0.1", true),
            ("", "mapped", "10.0.0.1", false),
            ("", "mapped", "11.0.0.1", true),
            ("mapped", "", "10.0.0.1", false),
            ("", "ip:::/0", "10.0.0.1", true),
        ] {
            let subtrees = |text: &str| {
                (!text.is_empty())
                    .then(|| vec![GeneralSubtree { base: base(text), minimum: 0, maximum: None }])
            };
            let constraints = NameConstraints {
                permitted_subtrees: subtrees(permitted),
                excluded_subtrees: subtrees(excluded),
            };
            let found = super::excluded(&constraints, &Name::default(), &[address(name)], &budget());
            assert_eq!(found.is_none(), passes, "{permitted} {excluded} {name}");
        }
    }

    #[test]
    fn names_and_constraints_that_are_too_many_to_compare_are_excluded() {
        let bases: Vec<_> = (0..2000).map(|at| constraint(&format!("dn:O={at}")).expect("a name")).collect();
        let constraints = constraints(&[], &bases).expect("DER").expect("constraints");
        let subject = |length: usize| format!("CN={}", "a".repeat(length)).parse::<Name>().expect("a name");
        let budget = budget();
        assert_eq!(excluded(&constraints, &subject(1000), &[], &budget), None);
        assert!(budget.get() < COMPARISONS - 2_000_000);
        let start = std::time::Instant::now();
        for (subject, names) in [(subject(100_000), 0), (subject(1), 20_000)] {
            let names = vec![general_name("dns:a.example.org").expect("a name"); names];
            let text = excluded(&constraints, &subject, &names, &budget).expect("too many");
            assert!(text.contains("too many to compare"), "{text}");
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn names_are_equal_if_only_the_types_of_their_strings_differ() {
        let bmp: Vec<u8> = "  Ex\u{c4}mple  CA".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let utf8 = name(Tag::Utf8String, "ex\u{e4}mple ca".as_bytes());
        assert!(same(&utf8, &name(Tag::BmpString, &bmp)));
        assert!(same(&utf8, &name(Tag::TeletexString, b"Ex\xe4mple CA ")));
        assert!(!same(&utf8, &name(Tag::PrintableString, b"Example CA")));
    }

    #[test]
    fn a_permitted_name_excludes_the_other_types_and_the_subject_counts() {
        let permitted = ["dns:example.org", "dn:O=Example"].map(|one| constraint(one).expect(one));
        let constraints = constraints(&permitted, &[]).expect("DER").expect("constraints");
        for (subject, name, passes) in [
            ("CN=x,O=Example", "dns:www.example.org", true),
            ("CN=x,O=other", "dns:www.example.org", false),
            ("CN=www.example.org,O=Example", "dns:www.example.org", true),
            ("CN=www.evil.test,O=Example", "dns:www.example.org", false),
            ("CN=w*.example.org,O=Example", "dns:www.example.org", false),
            ("CN=a_b.evil.test,O=Example", "dns:www.example.org", false),
            ("CN=www.evil.test:443,O=Example", "dns:www.example.org", false),
            ("CN=evil\u{3002}test,O=Example", "dns:www.example.org", false),
            ("CN=www.example.org:443,O=Example", "dns:www.example.org", true),
            ("CN=xn--a.evil.test,O=Example", "dns:www.example.org", false),
            ("CN=localhost,O=Example", "dns:www.example.org", true),
            ("emailAddress=a@b_c.evil.test,O=Example", "dns:www.example.org", false),
            ("CN=x,O=\\ eXample\\ ", "dns:www.example.org", true),
            ("CN=10.0.0.1,O=Example", "dns:www.example.org", false),
            ("CN=::1,O=Example", "dns:www.example.org", false),
            ("CN=[::1]:443,O=Example", "dns:www.example.org", false),
            ("CN=a@evil.test,O=Example", "dns:www.example.org", false),
            ("CN=evil.test/a@example.org,O=Example", "dns:www.example.org", false),
            ("CN=x,O=Example", "ip:10.0.0.1", false),
            ("CN=x,O=Example", "ip:::1", false),
            ("CN=x,O=Example", "email:a@example.org", false),
            ("CN=x,O=Example", "uri:https://example.org/", false),
        ] {
            let subject = subject.parse().expect("a subject");
            let found = excluded(&constraints, &subject, &[general_name(name).expect(name)], &budget());
            assert_eq!(found.is_none(), passes, "{subject} {name}: {found:?}");
        }
    }
}
