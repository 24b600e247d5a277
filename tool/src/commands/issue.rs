//! `cert issue`: signs a certificate for a request.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jeton_pki::certificate::{self, Holder};
use jeton_pki::issuer::{Order, PROFILES, Request, profile};
use jeton_pki::name::{constraint, general_name};
use jeton_tool::{Error, formats};
use serde::Serialize;

use super::authority::{self, Authority, IssuedRow};
use super::out::{self, Encoding, Output, Written};
use super::pin::warn;

/// Sign a certificate for a request (PKCS#10) with the key of a CA.
///
/// --label or --id chooses the key of the CA. The profile decides the extensions, and limits the
/// lifetime and the names. A request that asks for more is refused, and so is one that its own key
/// did not sign. The certificate is in the list of issued certificates before it is written.
#[derive(Args)]
pub struct Issue {
    /// The file with the request, or - for standard input.
    request: PathBuf,
    #[command(flatten)]
    authority: Authority,
    /// What the certificate is for.
    #[arg(long, value_parser = PossibleValuesParser::new(PROFILES.iter().map(|profile| profile.name)))]
    profile: String,
    /// The subject, instead of that of the request: "CN=www.example.org,O=Example".
    #[arg(long)]
    subject: Option<String>,
    /// A name, instead of those of the request: dns:NAME, ip:ADDRESS, email:ADDRESS, uri:URI or
    /// upn:NAME. May be repeated.
    #[arg(long, value_name = "NAME")]
    san: Vec<String>,
    /// The certificate is valid for this number of days from now. The default and the maximum
    /// depend on the profile.
    #[arg(long)]
    days: Option<u32>,
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
    /// The address of the CRL of the CA.
    #[arg(long, value_name = "URL")]
    crl_url: Option<String>,
    /// The address of the OCSP responder of the CA.
    #[arg(long, value_name = "URL")]
    ocsp_url: Option<String>,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Encoding,
    #[command(flatten)]
    output: Output,
}

/// A new certificate in `--json`.
#[derive(Serialize)]
struct New {
    #[serde(flatten)]
    row: IssuedRow,
    #[serde(flatten)]
    written: Written,
}

impl Issue {
    pub fn run(self) -> Result<ExitCode, Error> {
        if self.output.is_kept() {
            self.output.text(&[])?;
            return Ok(ExitCode::SUCCESS);
        }
        let file = out::input(&self.request, formats::MAX_FILE)?;
        let refused = |source| Error::KeyFile { path: self.request.clone(), source };
        let der =
            formats::block(&file, &["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"]).map_err(refused)?;
        let none = || Error::Failed(format!("{} has no certificate request", self.request.display()));
        let request = Request::parse(&der.ok_or_else(none)?)?;
        let profile = profile(&self.profile).expect("clap accepts only the names of the table");
        for extension in request.check(profile)? {
            warn(&format!("the certificate does not have the extension {extension} of the request"));
        }
        self.output.expect_writable()?;
        let ready = self.authority.open()?;
        let mut register = authority::register(&self.authority.list, &ready)?;
        let ready = ready.bind(&register)?;
        if !request.is_signed_by_its_key(&ready.session)? {
            return Err(
                jeton_pki::Error::Refused("the signature of the request is not valid".to_owned()).into()
            );
        }
        let names = |names: &[String]| names.iter().map(|name| Ok(constraint(name)?)).collect();
        let permitted: Result<_, Error> = names(&self.permit);
        let excluded: Result<_, Error> = names(&self.exclude);
        let order = Order {
            profile,
            holder: self.holder(&request)?,
            public_key: &request.public_key()?,
            days: self.days,
            path_length: self.path_length,
            permitted: permitted?,
            excluded: excluded?,
            crl_url: self.crl_url.as_deref(),
            ocsp_url: self.ocsp_url.as_deref(),
        };
        let mut serial = [0; 16];
        ready.session.random(&mut serial)?;
        let tbs = ready.issuer.certificate_tbs(&order, serial)?;
        let signature = self.authority.sign(&ready, &ready.issuer.signer, &tbs)?;
        let der = certificate::assemble(&tbs, &ready.issuer.signer, &signature)?;
        let entry = authority::entry_of(&der, &ready.name, profile.name)?;
        register.add(&entry, &der)?;
        let written = self.output.encoded(&der, "CERTIFICATE", self.format)?;
        if out::is_json() {
            out::json(&New { row: IssuedRow::of(&entry), written })?;
        }
        Ok(ExitCode::SUCCESS)
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
        Ok(holder)
    }
}
