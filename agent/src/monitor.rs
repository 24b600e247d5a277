//! The process that monitors ask for the figures by HTTP. It has no token, and may read no file.

use std::io::{self, Read};
use std::iter;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;

use jeton_http::{Request, Response, serve};
use tracing::{debug, warn};

use crate::link::{Link, ToFront, ToMonitor};
use crate::sandbox;

/// The path of the figures, as monitors expect it.
const PATH: &str = "/metrics";
/// The version of the text format of Prometheus.
const HEADERS: &str = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n";

/// Works until the front has ended.
pub fn run(link: Link) -> io::Result<()> {
    let Some((ToMonitor::Listen, Some(listener))) = link.receive()? else { return Ok(()) };
    let confined = sandbox::confine_door(iter::empty());
    link.send(&ToFront::Ready(confined.err().into_iter().collect()), None)?;
    let (link, listener) = (Arc::new(link), TcpListener::from(listener));
    let asking = Arc::clone(&link);
    thread::spawn(move || {
        serve(&listener, &|request| respond(&asking, &request), &|error| debug!(%error, "a monitor"));
    });
    while link.receive::<ToMonitor>()?.is_some() {}
    Ok(())
}

fn respond(link: &Link, request: &Request<'_>) -> Result<Response, &'static str> {
    if !matches!(request, Request::Get(PATH)) {
        return Err("404 Not Found");
    }
    let body = figures(link).map_err(|error| {
        warn!(%error, "a monitor gets no figures");
        "503 Service Unavailable"
    })?;
    Ok(Response { headers: HEADERS.to_owned(), body })
}

/// Asks the front, which writes the text to a pipe.
fn figures(link: &Link) -> io::Result<Vec<u8>> {
    let (mut own, other) = io::pipe()?;
    link.send(&ToFront::Figures, Some(other.as_fd()))?;
    drop(other);
    let mut text = Vec::new();
    own.read_to_end(&mut text)?;
    if text.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(text) }
}
