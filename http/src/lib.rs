//! A server of HTTP/1.1 for short requests: the OCSP responder of the tool, and the figures of the
//! agent. httparse reads the heads.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The longest head of a request and the longest body, in bytes.
const LONGEST: usize = 64 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;
/// How long a client may take for a whole request, and how long for reading the response.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of clients that are served at the same time. Further ones wait.
const CLIENTS: usize = 64;
/// While more clients than this are connected, a connection ends after its response.
const KEPT: usize = CLIENTS / 2;

/// The clients that have not sent their whole request: the one that waits longest comes first.
type Slow = Mutex<VecDeque<Arc<TcpStream>>>;

/// What a client asks for.
pub enum Request<'a> {
    /// GET of this path, as it was sent.
    Get(&'a str),
    /// POST of these bytes.
    Post(&'a [u8]),
}

/// A response with the status 200.
pub struct Response {
    /// The lines of the head that describe the body. Each ends with CR and LF.
    pub headers: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Returns a response, or the status that refuses the request.
pub type Respond<'a> = dyn Fn(Request<'_>) -> std::result::Result<Response, &'static str> + Sync + 'a;

/// Answers the requests of all clients for ever. `failed` gets the reason if a client has no
/// answer.
pub fn serve(listener: &TcpListener, respond: &Respond<'_>, failed: &(dyn Fn(Error) + Sync)) {
    let (connected, slow) = (AtomicUsize::new(0), Slow::default());
    let work = || loop {
        let Ok((stream, _)) = listener.accept() else {
            // For example too many open files. It must not end the responder.
            thread::sleep(PATIENCE / 50);
            continue;
        };
        let count = connected.fetch_add(1, Ordering::Relaxed) + 1;
        // The last free thread makes room for the next client.
        if count == CLIENTS
            && let Some(oldest) = lock(&slow).pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let client = Client { stream: Arc::new(stream), bytes: Vec::new(), slow: &slow };
        if let Err(error) = client.serve(respond, count <= KEPT) {
            failed(error);
        }
        connected.fetch_sub(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(work);
        }
    });
}

struct Client<'a> {
    stream: Arc<TcpStream>,
    /// What the client sent and no request has used.
    bytes: Vec<u8>,
    slow: &'a Slow,
}

/// A client that was disconnected or answered is not slow any more.
impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.is_fast();
    }
}

/// The head of a request.
struct Head {
    /// The path of a GET request.
    path: Option<String>,
    length: usize,
    /// The length of the body.
    body: usize,
    /// Whether the client keeps the connection.
    keep: bool,
}

impl Client<'_> {
    fn is_fast(&self) {
        lock(self.slow).retain(|other| !Arc::ptr_eq(other, &self.stream));
    }

    /// Answers requests until the client or the server ends the connection.
    fn serve(mut self, respond: &Respond<'_>, keep: bool) -> Result<()> {
        self.stream.set_nodelay(true)?;
        loop {
            let deadline = Instant::now() + PATIENCE;
            lock(self.slow).push_back(self.stream.clone());
            let head = loop {
                match head(&self.bytes) {
                    Ok(Some(head)) => break head,
                    Err(status) => return self.refuse(status),
                    Ok(None) if self.bytes.len() >= LONGEST => {
                        return self.refuse("431 Request Header Fields Too Large");
                    }
                    Ok(None) => match self.receive(deadline) {
                        // The client has no other request.
                        Err(_) if self.bytes.is_empty() => return Ok(()),
                        received => received?,
                    },
                }
            };
            while self.bytes.len() < head.length + head.body {
                self.receive(deadline)?;
            }
            self.is_fast();
            let keep = keep && head.keep;
            let request = match &head.path {
                Some(path) => Request::Get(path),
                None => Request::Post(&self.bytes[head.length..][..head.body]),
            };
            match respond(request) {
                Ok(Response { headers, body }) => self.reply("200 OK", &headers, &body, keep)?,
                Err(status) => return self.refuse(status),
            }
            if !keep {
                return Ok(());
            }
            self.bytes.drain(..head.length + head.body);
        }
    }

    /// Appends what the client sends next.
    fn receive(&mut self, deadline: Instant) -> Result<()> {
        self.stream.set_read_timeout(Some(left(deadline)?))?;
        let mut next = [0; 4096];
        match (&*self.stream).read(&mut next)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            read => {
                self.bytes.extend_from_slice(&next[..read]);
                Ok(())
            }
        }
    }

    fn refuse(mut self, status: &str) -> Result<()> {
        self.reply(status, "", &[], false)
    }

    fn reply(&mut self, status: &str, headers: &str, body: &[u8], keep: bool) -> Result<()> {
        let connection = if keep { "" } else { "Connection: close\r\n" };
        let head = format!(
            "HTTP/1.1 {status}\r\nDate: {}\r\n{headers}{connection}Content-Length: {}\r\n\r\n",
            httpdate::fmt_http_date(SystemTime::now()),
            body.len()
        );
        let all = [head.as_bytes(), body].concat();
        let (deadline, mut rest) = (Instant::now() + PATIENCE, all.as_slice());
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(left(deadline)?))?;
            rest = &rest[(&*self.stream).write(rest)?..];
        }
        Ok(())
    }
}

/// Returns the time until the deadline, or fails if it has passed.
fn left(deadline: Instant) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
}

/// Reads the head of a request. Returns `None` if it is incomplete, and the status that refuses it.
fn head(bytes: &[u8]) -> std::result::Result<Option<Head>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("400 Bad Request"),
    };
    let path = match request.method {
        Some("GET") => request.path.map(str::to_owned),
        Some("POST") => None,
        _ => return Err("405 Method Not Allowed"),
    };
    let (mut body, mut keep) = (None, request.version == Some(1));
    for header in request.headers {
        let is = |name| header.name.eq_ignore_ascii_case(name);
        // RFC 9112, 6.3: two readers must not find different ends of a request.
        if is("transfer-encoding") {
            return Err("411 Length Required");
        } else if is("content-length") {
            let digits = Some(header.value).filter(|value| value.iter().all(u8::is_ascii_digit));
            let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok());
            if length.is_none() || body.replace(length.unwrap_or(0)).is_some() {
                return Err("400 Bad Request");
            }
        } else if is("connection") {
            keep &= !header.value.eq_ignore_ascii_case(b"close");
        }
    }
    let body = body.unwrap_or(0);
    if body > LONGEST {
        return Err("413 Content Too Large");
    }
    Ok(Some(Head { path, length, body, keep }))
}

/// Returns a time in seconds since 1970 in the form of HTTP. RFC 9110, 5.6.7.
pub fn date(seconds: u64) -> String {
    /// The form has four digits for a year.
    const LAST: u64 = 253_402_300_799;
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST)))
}

/// A thread that panicked leaves no half change behind.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
