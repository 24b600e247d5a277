//! `ocsp`: answers OCSP requests, from a file or on a loopback address.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jeton_client::text::hex;
use jeton_pki::issuer::{Answer, Query, Responder, malformed_request};
use jeton_tool::Error;
use jeton_tool::register::Register;

use super::authority::{self, Authority, Ready};
use super::crl::revoked;
use super::out::{self, Output};

/// The longest request in bytes.
const LONGEST: usize = 64 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;
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
    pub fn run(self) -> Result<ExitCode, Error> {
        let ready = self.authority.open()?;
        let register = authority::register(&self.authority.list, &ready)?;
        let certificate = match (&self.signer_cert, ready.expect_own_key()) {
            (Some(path), _) => Some(authority::read_certificate(path)?),
            (None, Ok(())) => None,
            (None, Err(_)) => Some(authority::certificate_of(&ready.session, &ready.info)?),
        };
        let responder = match certificate {
            None => Responder::new(&ready.issuer)?,
            Some(certificate) => Responder::delegated(&ready.issuer, &certificate, &ready.session)?,
        };
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
        responder: &Responder,
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
        let Ok(query) = Query::parse(request) else { return Ok(malformed_request()?) };
        let tbs = responder.response_tbs(&query, self.days, status)?.tbs;
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
    let (status, body) = match read(&client).map_err(failed())? {
        Ok(request) => ("200 OK", answer(&request)?),
        Err(status) => (status, Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (&client).write_all(&[head.as_bytes(), &body].concat()).map_err(failed())
}

/// Reads a request of HTTP. Returns its body, or the status that refuses it.
fn read(mut client: &TcpStream) -> std::io::Result<Result<Vec<u8>, &'static str>> {
    let mut bytes = Vec::new();
    let (body, length) = loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(head)) if request.method == Some("POST") => {
                let length =
                    request.headers.iter().find(|one| one.name.eq_ignore_ascii_case("content-length"));
                let length = length.and_then(|one| std::str::from_utf8(one.value).ok()?.parse().ok());
                break (head, length.unwrap_or(0));
            }
            Ok(httparse::Status::Complete(_)) => return Ok(Err("405 Method Not Allowed")),
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST => {}
            Ok(httparse::Status::Partial) => return Ok(Err("431 Request Header Fields Too Large")),
            Err(_) => return Ok(Err("400 Bad Request")),
        }
        let mut next = [0; 4096];
        match client.read(&mut next)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => bytes.extend_from_slice(&next[..read]),
        }
    };
    if length > LONGEST {
        return Ok(Err("413 Content Too Large"));
    }
    bytes.drain(..body);
    let present = bytes.len().min(length);
    bytes.resize(length, 0);
    client.read_exact(&mut bytes[present..])?;
    Ok(Ok(bytes))
}
