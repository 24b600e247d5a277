//! `ocsp`: answers OCSP requests, from a file or on a loopback address.

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use clap::Args;
use jeton_ca::file::{self, Source};
use jeton_ca::responder::{LONGEST, Service};
use jeton_tool::Error;

use super::authority::Authority;
use super::out::{self, Output};

/// Answer an OCSP request with the key of a CA, or of a certificate of the profile ocsp-signer.
///
/// The list of issued certificates decides the answer. A key with a certificate of the profile
/// ocsp-signer needs --ca-cert; the response has the signer's certificate.
#[derive(Args)]
pub struct Ocsp {
    /// The file with the request in DER, or - for standard input.
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    request: Option<PathBuf>,
    #[command(flatten)]
    authority: Authority,
    /// The certificate of the signing key, if the key is not that of the CA. The default is the
    /// certificate in the token.
    #[arg(long, value_name = "FILE", requires = "ca_cert")]
    signer_cert: Option<PathBuf>,
    /// The response is valid for this number of days from now, but not longer than the certificate
    /// of the signer.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    days: u32,
    /// Answer GET and POST requests of HTTP on this loopback address, for example 127.0.0.1:8080,
    /// until the process is killed. Responses are signed ahead, and again after half of their
    /// validity. A revocation ends a response at once.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    output: Output,
}

impl Ocsp {
    pub fn run(self) -> Result<(), Error> {
        self.output.expect_writable()?;
        let ready = self.authority.open()?;
        let register = ready.register(&self.authority.list.path()?)?;
        let signer =
            self.signer_cert.as_deref().map(|path| file::certificate(path, Source::Named)).transpose()?;
        let report = |text: &dyn Display| eprintln!("jeton: {text}");
        let service = Service::new(ready, register, signer, self.days, &report)?;
        if let Some(address) = self.listen {
            return listen(&service, address);
        }
        let path = self.request.as_ref().expect("clap requires a request or --listen");
        self.output.binary(&service.response(&out::input(path, LONGEST)?)?)
    }
}

fn listen(service: &Service<'_>, address: SocketAddr) -> Result<(), Error> {
    if !address.ip().is_loopback() {
        return Err(Error::Usage(format!("{address} is not a loopback address")));
    }
    let failed = || Error::io(address.to_string());
    let listener = TcpListener::bind(address).map_err(failed())?;
    out::line(format_args!("http://{}", listener.local_addr().map_err(failed())?))?;
    service.serve(&listener);
    Ok(())
}
