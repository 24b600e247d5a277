//! `ocsp`: answers OCSP requests, from a file or on a loopback address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jeton_client::text::hex;
use jeton_pki::issuer::{Answer, Responder, malformed_request};
use jeton_tool::Error;
use jeton_tool::register::Register;

use super::authority::{self, Authority, Ready};
use super::crl::revoked;
use super::out::{self, Output};

/// The longest request in bytes.
const LONGEST: usize = 64 << 10;
/// How long the responder waits for the next bytes of a client, and for a client to read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the response to a request.
type Answers<'a> = dyn Fn(&[u8]) -> Result<Vec<u8>, Error> + 'a;

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
    /// The response is valid for this number of days from now.
    #[arg(long, default_value_t = 1)]
    days: u32,
    /// Answer requests on this loopback address, for example 127.0.0.1:8080, until the process is
    /// killed. The requests are POST requests of HTTP.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    output: Output,
}

impl Ocsp {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let ready = self.authority.open()?;
        let register = authority::register(&self.authority.list, &ready)?;
        let certificate = match (&self.signer_cert, ready.expect_own_key()) {
            (Some(path), _) => Some(authority::read_certificate(path)?),
            (None, Ok(())) => None,
            (None, Err(_)) => Some(authority::certificate_of(&ready.session, &ready.info)?),
        };
        let responder = Responder::new(&ready.issuer, certificate.as_deref())?;
        let answer = |request: &[u8]| self.answer(&ready, &responder, &register, request);
        if let Some(address) = self.listen {
            return serve(address, &answer);
        }
        let path = self.request.as_ref().expect("clap requires a request or --listen");
        self.output.binary(&answer(&out::input(path, LONGEST)?)?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the response to a request.
    fn answer(
        &self,
        ready: &Ready,
        responder: &Responder<'_>,
        register: &Register,
        request: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let status = |serial: &[u8]| {
            let entry = register.find(&ready.name, &hex(serial));
            let entry = entry.map_err(|error| jeton_pki::Error::Failed(error.to_string()))?;
            Ok(match entry {
                None => Answer::Unknown,
                Some(entry) => revoked(&entry).map_or(Answer::Good, Answer::Revoked),
            })
        };
        let tbs = match responder.response_tbs(request, self.days, status) {
            Err(jeton_pki::Error::Der(_)) => return Ok(malformed_request()?),
            tbs => tbs?,
        };
        let signature = self.authority.sign(ready, &responder.signer, &tbs)?;
        Ok(responder.assemble(&tbs, &signature)?)
    }
}

/// Answers the requests of one client after the other.
fn serve(address: SocketAddr, answer: &Answers<'_>) -> Result<ExitCode, Error> {
    if !address.ip().is_loopback() {
        return Err(Error::Usage(format!("{address} is not a loopback address")));
    }
    let failed = || Error::io(address.to_string());
    let listener = TcpListener::bind(address).map_err(failed())?;
    out::line(format_args!("http://{}", listener.local_addr().map_err(failed())?))?;
    for client in listener.incoming() {
        // A client that fails must not end the responder.
        if let Err(error) = client.map_err(failed()).and_then(|client| reply(client, answer)) {
            eprintln!("jeton: {error}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a request of HTTP, and writes the response. RFC 6960, A.1.
fn reply(client: TcpStream, answer: &Answers<'_>) -> Result<(), Error> {
    let failed = || Error::io("OCSP client");
    client.set_read_timeout(Some(PATIENCE)).map_err(failed())?;
    client.set_write_timeout(Some(PATIENCE)).map_err(failed())?;
    let mut reader = BufReader::new((&client).take(2 * LONGEST as u64));
    let (mut first, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).map_err(failed())?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        first.get_or_insert_with(|| line.to_owned());
    }
    let (status, body) = if !first.is_some_and(|line| line.starts_with("POST ")) {
        ("405 Method Not Allowed", Vec::new())
    } else if length > LONGEST {
        ("413 Content Too Large", Vec::new())
    } else {
        let mut request = vec![0; length];
        reader.read_exact(&mut request).map_err(failed())?;
        ("200 OK", answer(&request)?)
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (&client).write_all(&[head.as_bytes(), &body].concat()).map_err(failed())
}
