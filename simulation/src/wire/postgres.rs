//! The frontend/backend protocol 3.0 of Postgres (documentation of Postgres, chapter "Frontend/Backend Protocol").

/// The length of the first request in `bytes`: everything up to the message that Postgres responds to. `started` is
/// false until the startup packet, which has no type byte.
pub fn request(bytes: &[u8], started: bool) -> Option<usize> {
    if !started {
        return complete(bytes, 0);
    }
    let mut end = 0;
    loop {
        let kind = *bytes.get(end)?;
        end += complete(&bytes[end..], 1)?;
        // Query, Sync, Terminate, Flush and the password are followed by a response or the end.
        if matches!(kind, b'Q' | b'S' | b'X' | b'p' | b'H') {
            return Some(end);
        }
    }
}

/// The length of the message at the start of `bytes`, whose length field is at `offset`.
fn complete(bytes: &[u8], offset: usize) -> Option<usize> {
    let length = bytes.get(offset..offset + 4)?;
    let length = offset + u32::from_be_bytes(length.try_into().ok()?) as usize;
    (bytes.len() >= length).then_some(length)
}

/// The whole messages in `bytes`: the type byte and the contents of each.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let length = complete(bytes, 1)?;
        let (message, rest) = bytes.split_at(length);
        bytes = rest;
        Some((message[0], &message[5..]))
    })
}

/// A message.
pub fn message(kind: u8, contents: &[u8]) -> Vec<u8> {
    [&[kind][..], &(contents.len() as u32 + 4).to_be_bytes(), contents].concat()
}

/// A response, read message by message.
#[derive(Debug, Default)]
pub struct Response {
    parsed: usize,
    /// The process id of the server's process, once it has been sent.
    pub pid: Option<u32>,
    /// Whether a transaction is open: `I`, `T`, or `E` for one that has failed.
    pub status: u8,
}

impl Response {
    /// Begins with the next response.
    pub fn begin(&mut self) {
        self.parsed = 0;
    }

    /// Whether `bytes`, which only grows, contains a whole response: up to `ReadyForQuery` or a request for a password.
    pub fn is_complete(&mut self, bytes: &[u8]) -> bool {
        while let Some(length) = bytes.get(self.parsed..).and_then(|rest| complete(rest, 1)) {
            let message = &bytes[self.parsed..self.parsed + length];
            self.parsed += length;
            match message[0] {
                b'Z' => {
                    self.status = message[5];
                    return true;
                }
                b'R' if message[5..9] != [0; 4] => return true,
                b'K' => self.pid = message[5..9].try_into().map(u32::from_be_bytes).ok(),
                _ => {}
            }
        }
        false
    }
}

/// A query with the simple protocol.
pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// The first column of each row of a response, as text.
pub fn first_column(bytes: &[u8]) -> Vec<String> {
    let rows = messages(bytes).filter(|(kind, contents)| *kind == b'D' && contents.len() > 6);
    let values = rows.map(|(_, contents)| {
        let size = i32::from_be_bytes(contents[2..6].try_into().unwrap_or([0xff; 4]));
        usize::try_from(size).ok().and_then(|size| contents.get(6..6 + size)).unwrap_or_default()
    });
    values.map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

/// Overwrites the process id and the cancellation key, which differ between runs.
pub fn mask(response: &mut [u8]) {
    let mut start = 0;
    while let Some(length) = response.get(start..).and_then(|rest| complete(rest, 1)) {
        if response[start] == b'K' {
            response[start + 5..start + length].fill(0);
        }
        start += length;
    }
}

/// The startup packet.
pub fn startup(user: &str, database: &str) -> Vec<u8> {
    let body = format!("\0\u{3}\0\0user\0{user}\0database\0{database}\0\0");
    [&(body.len() as u32 + 4).to_be_bytes(), body.as_bytes()].concat()
}

/// The response to a request for a password.
pub fn password(password: &str) -> Vec<u8> {
    message(b'p', &[password.as_bytes(), b"\0"].concat())
}

/// The text before the first null byte of a message's contents, and what follows the null byte.
pub fn split_text(contents: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = contents.iter().position(|byte| *byte == 0)?;
    Some((&contents[..end], &contents[end + 1..]))
}
