//! A responder of OCSP: it answers from the list, and signs ahead.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64ct::{Base64, Encoding};
use jeton_client::safe_text::{from_hex, hex};
use jeton_formats::certificate::public_key_of;
use jeton_http::{self as http, Request, Response, lock};
use percent_encoding::percent_decode_str;

use crate::Error;
use crate::authority::{Ready, certificate_of, entry_of};
use crate::crl::{Lost, revoked};
use crate::issuer::{
    Answer, Query, Responder, Unsigned, internal_error, malformed_request, now, ocsp_request,
};
use crate::register::{Entry, Register};

/// The longest request in bytes.
pub const LONGEST: usize = 64 << 10;
/// The most responses that are kept.
const MOST_KEPT: usize = 1 << 20;
/// How often the responses are looked through for those to sign again.
const RENEWAL: Duration = Duration::from_secs(30);
/// Warn if the certificate of the signer ends in less than this number of seconds.
const SOON: u64 = 7 * 24 * 60 * 60;

/// What a responder has. A lock is held only for one look-up or one signature.
pub struct Service<'a> {
    /// The lifetime of a response in days.
    days: u32,
    /// Writes a message for the operator.
    report: &'a (dyn Fn(&dyn Display) + Sync),
    responder: Responder,
    /// The key identifier of the CA, which names it in the list.
    name: String,
    /// The certificates of the signer, of the CA and above: the CA of each one, and its number.
    signers: Vec<(String, String)>,
    register: Mutex<Register>,
    ready: Mutex<Ready<'a>>,
    /// The responses that are signed ahead, by [`Query::key`].
    kept: Mutex<HashMap<Vec<u8>, Arc<Signed>>>,
}

struct Signed {
    body: Vec<u8>,
    /// The lines of the head that do not change with time. RFC 5019, 6.2.
    headers: String,
    /// The seconds since 1970 in which it is valid.
    valid: Range<u64>,
    /// The last certificate of the request that is in the list.
    entry: Option<Entry>,
    /// The version of the list that was asked last.
    version: AtomicU64,
}

impl Signed {
    /// Returns whether half of its validity has passed, or the clock was set back before its start.
    fn is_old(&self) -> bool {
        now().wrapping_sub(self.valid.start) >= (self.valid.end - self.valid.start) / 2
    }
}

impl<'a> Service<'a> {
    /// Makes the responder of a CA: the key signs, or that of the CA, or one with a certificate of
    /// the profile `ocsp-signer`, which is in the token unless it is passed. Responses are valid
    /// for this number of days.
    pub fn new(
        ready: Ready<'a>,
        register: Register,
        signer: Option<Vec<u8>>,
        days: u32,
        report: &'a (dyn Fn(&dyn Display) + Sync),
    ) -> Result<Self, Error> {
        ready.expect_last_crl(&register, Lost::Refused)?;
        register.expect_sure(&ready.name)?;
        let certificate = match (signer, ready.expect_own_key()) {
            (Some(certificate), _) => Some(certificate),
            (None, Ok(())) => None,
            (None, Err(_)) => Some(certificate_of(&ready.key.session, &ready.key.info)?),
        };
        let responder = match &certificate {
            None => Responder::new(&ready.issuer)?,
            Some(certificate) if public_key_of(certificate)? != ready.key.info => {
                return Err(Error::Failed("the key is not that of the signer's certificate".to_owned()));
            }
            Some(certificate) => Responder::delegated(&ready.issuer, certificate, &ready.key.session)?,
        };
        let mut signers = ready.path(&register)?;
        if let Some(certificate) = &certificate {
            signers.push((ready.name.clone(), entry_of(certificate, "", "")?.serial));
        }
        responder.expect_valid()?;
        if responder.valid.end < now() + SOON {
            let end = http::date(responder.valid.end);
            report(&format_args!("the certificate of the signer or of the CA ends on {end}"));
        }
        Ok(Self {
            days,
            report,
            name: ready.name.clone(),
            signers,
            responder,
            register: Mutex::new(register),
            ready: Mutex::new(ready),
            kept: Mutex::default(),
        })
    }

    /// Returns the response to a request in DER.
    pub fn response(&self, request: &[u8]) -> Result<Vec<u8>, Error> {
        match Query::parse(request) {
            Ok(query) => Ok(self.sign(&query)?.body),
            Err(_) => malformed_request(),
        }
    }

    /// Answers GET and POST requests of HTTP until the process is killed. Signs responses ahead.
    pub fn serve(&self, listener: &TcpListener) {
        thread::scope(|scope| {
            scope.spawn(|| self.sign_ahead());
            http::serve(listener, &|request| self.respond(request), &|error| {
                (self.report)(&format_args!("client: {error}"));
            });
        });
    }

    /// Signs a response for each valid certificate of the list, and again before a response ends.
    fn sign_ahead(&self) {
        let mut keys = self.valid().unwrap_or_else(|error| {
            (self.report)(&error);
            Vec::new()
        });
        loop {
            let answers = keys.iter().map(|key| self.answer(&Query::of_key(key)?));
            if let Some(error) = answers.filter_map(Result::err).next() {
                (self.report)(&error);
            }
            thread::sleep(RENEWAL);
            let kept = lock(&self.kept);
            keys = kept.iter().filter(|(_, one)| one.is_old()).map(|(key, _)| key.clone()).collect();
        }
    }

    /// Returns the keys of the valid certificates of the list.
    fn valid(&self) -> Result<Vec<Vec<u8>>, Error> {
        let entries = lock(&self.register).entries(Some(&self.name))?;
        let (now, ready) = (now(), lock(&self.ready));
        let valid =
            entries.iter().filter(|entry| entry.not_after.is_none_or(|end| end.unsigned_abs() >= now));
        let key = |serial: Vec<u8>| Query::parse(&ocsp_request(&ready.issuer, &serial)?)?.key();
        valid.filter_map(|entry| key(from_hex(&entry.serial)?).transpose()).collect()
    }

    /// Answers a request of HTTP. RFC 6960, A.1.
    fn respond(&self, request: Request<'_>) -> Result<Response, &'static str> {
        let query = match request {
            Request::Post(body) => Query::parse(body).ok(),
            Request::Get(path) => {
                let text = percent_decode_str(path.strip_prefix('/').unwrap_or(path)).decode_utf8();
                let text = text.ok().and_then(|text| Base64::decode_vec(&text).ok());
                text.and_then(|request| Query::parse(&request).ok())
            }
        };
        let signed = query.map(|query| self.answer(&query));
        let (body, cache) = match &signed {
            None => (malformed_request(), None),
            Some(Err(error)) => {
                (self.report)(&error);
                (internal_error(), None)
            }
            Some(Ok(signed)) => (Ok(signed.body.clone()), Some(signed).filter(|one| !one.headers.is_empty())),
        };
        let cache = match cache {
            None => "Cache-Control: no-store\r\n".to_owned(),
            Some(signed) => {
                let (headers, age) = (&signed.headers, signed.valid.end.saturating_sub(now()));
                format!("{headers}Cache-Control: max-age={age}, public, no-transform, must-revalidate\r\n")
            }
        };
        let headers = format!("Content-Type: application/ocsp-response\r\n{cache}");
        body.map(|body| Response { headers, body }).map_err(|_| "500 Internal Server Error")
    }

    /// Returns the response that is signed ahead, or signs one.
    fn answer(&self, query: &Query) -> Result<Arc<Signed>, Error> {
        let Some(key) = query.key()? else { return Ok(Arc::new(self.sign(query)?)) };
        self.responder.expect_valid()?;
        let version = lock(&self.register).version()?;
        let kept = lock(&self.kept).get(&key).cloned().filter(|kept| !kept.is_old());
        let is_true = |kept: &Signed| {
            let Some(old) = &kept.entry else { return Ok(false) };
            let new = self.read(|list| list.find(&self.name, &old.serial))?;
            Ok::<_, Error>(new.is_some_and(|new| (new.revoked, new.reason) == (old.revoked, old.reason)))
        };
        if let Some(kept) = kept
            && (kept.version.load(Ordering::Relaxed) == version || is_true(&kept)?)
        {
            kept.version.store(version, Ordering::Relaxed);
            return Ok(kept);
        }
        let signed = Arc::new(self.sign(query)?);
        let mut all = lock(&self.kept);
        // Only the list limits how many certificates a client can ask for.
        if signed.entry.is_some() && (all.len() < MOST_KEPT || all.contains_key(&key)) {
            all.insert(key, signed.clone());
        }
        Ok(signed)
    }

    /// Reads the list, if it knows all revocations and revokes neither the signer nor a CA above.
    fn read<T>(&self, work: impl FnOnce(&Register) -> Result<T, Error>) -> Result<T, Error> {
        let mut register = lock(&self.register);
        register.version()?;
        // One lock of the file for all that is read.
        let _moment = register.moment()?;
        register.expect_sure(&self.name)?;
        self.signers.iter().try_for_each(|(ca, serial)| register.expect_good(ca, serial))?;
        work(&register)
    }

    fn sign(&self, query: &Query) -> Result<Signed, Error> {
        let version = lock(&self.register).version()?.into();
        // A request for certificates of other CAs looks nothing up.
        self.read(|_| Ok(()))?;
        let mut found = None;
        let Unsigned { tbs, valid } = self.responder.response_tbs(query, self.days, |serial| {
            let entry = self.read(|list| list.find(&self.name, &hex(serial)));
            let entry = entry?;
            let answer = match &entry {
                None => Answer::Unknown,
                Some(entry) => revoked(entry).map_or(Answer::Good, Answer::Revoked),
            };
            found = entry;
            Ok(answer)
        })?;
        let signature = lock(&self.ready).sign(&self.responder.signer, &tbs)?;
        let body = self.responder.assemble(&tbs, &signature)?;
        let headers = query.key()?.map_or(String::new(), |_| {
            let (start, end) = (http::date(valid.start), http::date(valid.end));
            let tag = hex(digest(&SHA256, &body).as_ref());
            format!("Last-Modified: {start}\r\nExpires: {end}\r\nETag: \"{tag}\"\r\n")
        });
        Ok(Signed { body, headers, valid, entry: found, version })
    }
}
