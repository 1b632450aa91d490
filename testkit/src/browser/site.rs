//! A merchant's site: a few pages at their own origin. POST requests get a response and are discarded.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::Result;

const TIMEOUT: Duration = Duration::from_secs(60);

type Pages = Arc<Mutex<HashMap<String, String>>>;

/// A server on a local port that runs until the test process ends.
#[derive(Clone, Debug)]
pub struct Site {
    port: u16,
    pages: Pages,
}

impl Site {
    /// A site without pages.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let pages = Pages::default();
        let shared_pages = Arc::clone(&pages);
        thread::Builder::new().name("site".into()).spawn(move || {
            for connection in listener.incoming().flatten() {
                let pages = Arc::clone(&shared_pages);
                // Browsers open connections that they use late or never, so none may block another.
                let _ = thread::Builder::new().spawn(move || respond(connection, &pages));
            }
        })?;
        // Browsers request it and report an error if it is missing.
        Ok(Self { port, pages }.page("/favicon.ico", ""))
    }

    /// Adds a page at a path, such as `/`.
    #[must_use]
    pub fn page(self, path: &str, html: &str) -> Self {
        self.put(path, html);
        self
    }

    /// Adds or replaces the page at a path.
    pub fn put(&self, path: &str, html: &str) {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), html.to_owned());
    }

    /// `http://127.0.0.1:…`
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// `http://localhost:…`, a different site from every one named by an IP address.
    #[must_use]
    pub fn localhost_origin(&self) -> String {
        format!("http://localhost:{}", self.port)
    }
}

/// Responds to one request and closes the connection.
fn respond(mut connection: TcpStream, pages: &Pages) -> std::io::Result<()> {
    connection.set_read_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(connection.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    let page = pages.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
    let (status, body) = page.map_or(("404 Not Found", String::new()), |page| ("200 OK", page));
    let content_type = if path.ends_with(".js") { "text/javascript" } else { "text/html; charset=utf-8" };
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nAccess-Control-Allow-Origin: *\r\n\
         Access-Control-Allow-Headers: *\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    connection.flush()
}
