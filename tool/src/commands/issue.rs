//! `cert issue` and `cert renew`: sign a certificate with the key of a CA.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use der::Encode;
use jeton_ca::authority::{Ready, entry_of};
use jeton_ca::certificate::Holder;
use jeton_ca::crl::Lost;
use jeton_ca::file::{self, Source};
use jeton_ca::issuer::{self, CertificateProfile, Order, PROFILE_NAMES, Request};
use jeton_ca::name::{constraint, general_name, type_of};
use jeton_ca::register::{Entry, Register};
use jeton_ca::search::above;
use jeton_client::safe_text::shown;
use jeton_tool::time::date;
use jeton_tool::{Cause, Error, formats, token_file};

use super::again::Proposed;
use super::authority::{Authority, IssuedRow};
use super::hook::Hook;
use super::issued::{Shown, Which};
use super::out::{self, Encoding, Output};
use super::pin::warn;

/// A request may ask for very much that a profile does not allow. The list keeps the first parts.
const MOST_BEYOND: usize = 16;

/// The options of a new certificate.
#[derive(Args)]
struct Terms {
    #[command(flatten)]
    authority: Authority,
    /// A file with profiles of your own. `jeton ca profiles` writes the built-in ones in its form.
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// The certificate is valid for this number of days from now. The default and the maximum
    /// depend on the profile.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    days: Option<u32>,
    /// The address of the CRL of the CA.
    #[arg(long, value_name = "URL")]
    crl_url: Option<String>,
    /// The address of the OCSP responder of the CA.
    #[arg(long, value_name = "URL")]
    ocsp_url: Option<String>,
    /// Also write the certificates of the CAs up to the root, without the root's.
    #[arg(long)]
    chain: bool,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Encoding,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    hook: Hook,
}

impl Terms {
    /// Opens the CA and its list.
    fn open(&self) -> Result<(Ready<'_>, Register), Error> {
        let ready = self.authority.open()?;
        let register = ready.register(&self.authority.list.path()?)?;
        let ready = ready.bind(&register)?;
        ready.expect_last_crl(&register, Lost::Refused)?;
        ready.expect_may_issue(&register)?;
        Ok((ready, register))
    }

    /// Returns the profile with this name: of the operator's file, or else a built-in one.
    fn profile(&self, name: &str) -> Result<CertificateProfile, Error> {
        let mut all = Vec::new();
        if let Some(path) = &self.profiles {
            let file = out::input(path, formats::MAX_FILE)?;
            all = CertificateProfile::read(&String::from_utf8_lossy(&file))?;
        }
        let own = all.iter().find(|profile| profile.name == name).cloned();
        let found = own.or_else(|| issuer::profile(name).cloned()).ok_or_else(|| {
            let names = all.iter().map(|profile| profile.name.as_str()).chain(PROFILE_NAMES.iter().copied());
            let names: Vec<_> = names.collect();
            Error::Usage(format!("no profile {name:?}; there are {}", names.join(", ")))
        })?;
        if token_file::is_cnsa2().unwrap_or(false) { Ok(found.under_cnsa2()?) } else { Ok(found) }
    }

    /// Describes the certificate in the file of `--out` and returns true if the file is kept: the
    /// command does nothing then.
    fn keep(&self) -> Result<bool, Error> {
        describe_kept(&self.output)?;
        self.output.keep()
    }

    /// Signs a certificate, adds it to the list and writes it to `output`. `old` is the serial
    /// number of the certificate that this one renews.
    fn issue(
        &self,
        (ready, register): (&Ready<'_>, &Register),
        output: &Output,
        order: &Order<'_>,
        remark: &[String],
        old: Option<&str>,
    ) -> Result<Shown, Error> {
        let (entry, der) = ready.certificate(register, order, remark)?;
        let mut all = vec![der];
        if self.chain {
            all.extend(above(register, &entry)?);
        }
        let draft = output.encoded(&all, "CERTIFICATE", self.format)?;
        ready.add(register, (&entry, &all[0]), order.public_key, old)?;
        let written = draft.publish().map_err(|error| {
            let text = format!("{error}; `jeton cert show {}` writes the certificate again", entry.serial);
            Error::Caused(error.cause(), text)
        })?;
        let hook = self.hook.run("issued", &entry, output.path());
        // Beside a certificate on standard output, no text.
        if let Some(Err(error)) = output.path().map(|path| describe(path, &entry)) {
            warn(&format!("{error}; the certificate {} is written", entry.serial));
        }
        Ok(Shown { row: IssuedRow::of(&entry), written, hook })
    }
}

/// Writes a line about the certificate that is in this file, unless the results are JSON.
fn describe(path: &Path, entry: &Entry) -> Result<(), Error> {
    if out::is_json() {
        return Ok(());
    }
    let names = some_of(&entry.names);
    let end = entry.not_after.map(date).unwrap_or_default();
    let (subject, path) = (shown(&entry.subject), out::shown_path(path));
    out::line(format_args!("{path}: {} for {subject}{names}, valid until {end}", entry.serial))
}

/// Writes the same line about a file that is kept, so that a script that runs twice prints the same
/// text. Whatever the file has is kept, so a file without a certificate has no line.
fn describe_kept(output: &Output) -> Result<(), Error> {
    let Some(path) = output.path().filter(|_| output.is_kept()) else { return Ok(()) };
    match file::certificate(path, Source::Found).and_then(|der| entry_of(&der, "", "")) {
        Ok(entry) => describe(path, &entry),
        Err(_) => Ok(()),
    }
}

/// Returns the first names of a certificate in brackets.
fn some_of(names: &str) -> String {
    const MOST: usize = 4;
    let all: Vec<_> = names.split_whitespace().collect();
    match all.len().checked_sub(MOST) {
        _ if all.is_empty() => String::new(),
        None | Some(0) => format!(" ({})", shown(&all.join(" "))),
        Some(more) => format!(" ({} and {more} more)", shown(&all[..MOST].join(" "))),
    }
}

/// Returns the files of requests: those of a directory have names that end in `.csr`. Requesters
/// may write to the directory, so a FIFO or a device in it is left out.
fn requests_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).map_err(Error::io(path))? {
            let file = entry.map_err(Error::io(path))?.path();
            if file.extension().is_none_or(|ending| ending != "csr") {
                continue;
            }
            if file.is_file() {
                found.push(file);
            } else {
                warn(&format!("{} is left out: it is no file", file.display()));
            }
        }
        if found.is_empty() {
            return Err(Cause::NotFound.error(format!("{} has no file *.csr", path.display())));
        }
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

/// Sign a certificate for a request (PKCS#10) with the key of a CA.
///
/// --label or --id chooses the key of the CA. The profile decides the extensions, and limits the
/// lifetime, the key and the names. What a request asks for beyond the profile is left out, with a
/// warning and a remark in the list. A request for a CA, or one that its own key did not sign, is
/// refused. The certificate is in the list of issued certificates before it is written.
#[derive(Args)]
pub struct Issue {
    /// The file with the request, or - for standard input. Several files, or directories with files
    /// whose names end in .csr, get their certificates after one login, in the directory of --out.
    #[arg(required = true, value_name = "REQUEST")]
    requests: Vec<PathBuf>,
    #[command(flatten)]
    terms: Terms,
    /// What the certificate is for.
    #[arg(long, value_parser = Proposed(PROFILE_NAMES))]
    profile: String,
    /// The subject, instead of that of the request: "CN=www.example.org,O=Example".
    #[arg(long)]
    subject: Option<String>,
    /// A name, instead of those of the request: dns:NAME, ip:ADDRESS, email:ADDRESS, uri:URI or
    /// upn:NAME. May be repeated.
    #[arg(long, value_name = "NAME")]
    san: Vec<String>,
    /// The number of CAs that may follow below a sub-ca.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    path_length: u8,
    /// The certificates below a sub-ca have only names in this domain: dns:example.org,
    /// ip:10.0.0.0/8, email:example.org, uri:example.org or dn:O=Example. Names of the types dns,
    /// ip, email and uri that no --permit mentions are excluded. May be repeated.
    #[arg(long, value_name = "DOMAIN")]
    permit: Vec<String>,
    /// The certificates below a sub-ca have no names in this domain. May be repeated.
    #[arg(long, value_name = "DOMAIN")]
    exclude: Vec<String>,
}

impl Issue {
    pub fn run(self) -> Result<(), Error> {
        let requests = requests_of(&self.requests)?;
        let [one] = &requests[..] else { return self.run_each(&requests) };
        if one != &self.requests[0] {
            return self.run_each(&requests);
        }
        if self.terms.keep()? {
            return Ok(());
        }
        self.terms.output.expect_writable()?;
        let profile = self.terms.profile(&self.profile)?;
        let ca = self.terms.open()?;
        let issued = self.issue(&ca, &profile, one, &self.terms.output)?;
        out::if_json(&issued)?;
        Hook::expect(issued.hook)
    }

    /// Issues a certificate for each request. A request that is refused does not end the command.
    fn run_each(&self, requests: &[PathBuf]) -> Result<(), Error> {
        if self.subject.is_some() || !self.san.is_empty() {
            return Err(Error::Usage("several requests cannot share one --subject or --san".to_owned()));
        }
        let beside = |path: &PathBuf| self.terms.output.beside(path, "pem");
        let outputs = requests.iter().map(beside).collect::<Result<Vec<_>, Error>>()?;
        let outputs: Vec<_> = requests.iter().zip(outputs).collect();
        let mut paths: Vec<_> = outputs.iter().filter_map(|(_, output)| output.path()).collect();
        paths.sort();
        if let Some(twice) = paths.windows(2).find(|two| two[0] == two[1]) {
            return Err(Error::Usage(format!(
                "two requests would have the certificate {}",
                twice[0].display()
            )));
        }
        outputs.iter().try_for_each(|(_, output)| describe_kept(output))?;
        let wanted: Vec<_> = outputs.iter().filter(|(_, output)| !output.is_kept()).collect();
        wanted.iter().try_for_each(|(_, output)| output.expect_writable())?;
        let profile = self.terms.profile(&self.profile)?;
        let ca = self.terms.open()?;
        let (mut issued, mut failed) = (Vec::new(), None);
        for (path, output) in &wanted {
            match self.issue(&ca, &profile, path, output) {
                Ok(shown) => issued.push(shown),
                Err(error) => {
                    warn(&format!("{}: {error}", path.display()));
                    failed.get_or_insert(error);
                }
            }
        }
        out::if_json(&issued)?;
        match failed {
            None => Hook::expect(issued.iter().all(|issued| issued.hook)),
            Some(error) => {
                let text = format!(
                    "{} of {} requests have no certificate",
                    wanted.len() - issued.len(),
                    wanted.len()
                );
                Err(error.cause().error(text))
            }
        }
    }

    fn issue(
        &self,
        (ready, register): &(Ready<'_>, Register),
        profile: &CertificateProfile,
        path: &Path,
        output: &Output,
    ) -> Result<Shown, Error> {
        let is_named = self.requests.iter().any(|named| named == path);
        let source = if is_named { Source::Named } else { Source::Found };
        let request = ready.request(path, source, profile)?;
        let mut remark = request.check(profile)?;
        if let Some(more) = remark.len().checked_sub(MOST_BEYOND).filter(|more| *more > 0) {
            remark.truncate(MOST_BEYOND);
            remark.push(format!("{more} further parts"));
        }
        for beyond in &remark {
            warn(&format!("the certificate does not have {beyond} of the request"));
        }
        let mut holder = self.holder(&request)?;
        if self.san.is_empty() {
            holder.names.retain(|name| profile.has_names(type_of(name)));
        }
        let constraints = |all: &[String]| all.iter().map(|one| Ok(constraint(one)?)).collect();
        let (permitted, excluded): (Result<_, Error>, Result<_, Error>) =
            (constraints(&self.permit), constraints(&self.exclude));
        let order = Order {
            profile,
            holder,
            public_key: &request.public_key()?,
            path_length: self.path_length,
            permitted: permitted?,
            excluded: excluded?,
            days: self.terms.days,
            crl_url: self.terms.crl_url.as_deref(),
            ocsp_url: self.terms.ocsp_url.as_deref(),
        };
        self.terms.issue((ready, register), output, &order, &remark, None)
    }

    /// Returns the subject and the names: those of the options, or else those of the request.
    fn holder(&self, request: &Request) -> Result<Holder, Error> {
        let mut holder = request.holder()?;
        if let Some(subject) = &self.subject {
            holder.subject = Holder::parse(subject, &[])?.subject;
        }
        if !self.san.is_empty() {
            holder.names = self.san.iter().map(|name| general_name(name)).collect::<Result<_, _>>()?;
        }
        // A request may have very many names.
        let mut seen = HashSet::new();
        holder.names.retain(|name| name.to_der().map_or(true, |der| seen.insert(der)));
        Ok(holder)
    }
}

/// Issue a certificate of the list again, with the same subject, names and profile.
///
/// The old certificate stays valid until it ends, so that the holder can change to the new one.
#[derive(Args)]
pub struct Renew {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    terms: Terms,
    /// A request with a new key. Without it, the new certificate has the key of the old one.
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// The profile, instead of that of the old certificate.
    #[arg(long, value_parser = Proposed(PROFILE_NAMES))]
    profile: Option<String>,
}

impl Renew {
    pub fn run(self) -> Result<(), Error> {
        if self.terms.keep()? {
            return Ok(());
        }
        self.terms.output.expect_writable()?;
        let (ready, register) = self.terms.open()?;
        let entry = self.which.find(&register)?;
        ready.expect_renewable(&entry)?;
        let profile = self.terms.profile(self.profile.as_deref().unwrap_or(&entry.profile))?;
        let old = ready.old(&register, &entry, &profile, self.request.as_deref())?;
        let order = Order {
            profile: &profile,
            holder: old.holder,
            public_key: &old.public_key,
            path_length: old.path_length,
            permitted: old.permitted,
            excluded: old.excluded,
            days: self.terms.days,
            crl_url: self.terms.crl_url.as_deref(),
            ocsp_url: self.terms.ocsp_url.as_deref(),
        };
        let remark = [format!("renews {}", entry.serial)];
        let output = &self.terms.output;
        let issued = self.terms.issue((&ready, &register), output, &order, &remark, Some(&entry.serial))?;
        out::if_json(&issued)?;
        Hook::expect(issued.hook)
    }
}
