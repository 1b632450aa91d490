//! Forms as browsers send them: one after the other in a text, or as parts if there is a file.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use foundation::body::{self, ReadError};
use foundation::crypto::hex;
use futures_util::StreamExt as _;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::app::App;
use crate::failure::Failure;
use crate::form::Entered;
use crate::picture;
use crate::texts::text;

const PARTS: &[u8] = b"multipart/form-data";
/// The longest form: 16 KiB of metadata can take three times as much in a form.
const MAX_FORM: usize = 64 * 1_024;
/// The end of the address of the only form with a file.
const UPLOAD: &str = "/settings/logo";
/// The longest form with a file: the file and what is around it.
const MAX_UPLOAD: usize = picture::MAX_FILE + 16 * 1_024;
/// Files that arrive at once: they need more memory than is planned for a connection.
static UPLOADS: Semaphore = Semaphore::const_new(8);
/// How much of a form that is too long is read all the same. Browsers show a response only after they have sent the form.
const MAX_DISCARDED: u64 = 16 << 20;
/// The time for a form to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Its extractor is the last of a route: the address and the session are checked before anything is read.
impl FromRequest<App> for Entered {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (head, form) = request.into_parts();
        let form = match head.uri.path().ends_with(UPLOAD) {
            true => read_upload(form).await?,
            false => read(form, MAX_FORM, "The form is too long or incomplete.").await?,
        };
        if head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(PARTS)) {
            let form = Multipart::from_request(Request::from_parts(head, form.into()), app).await;
            return parts(form.map_err(|_| incomplete())?).await;
        }
        Ok(Self::parse(&form))
    }
}

async fn read_upload(form: Body) -> Result<Bytes, Failure> {
    let turn = timeout(BODY_TIMEOUT, UPLOADS.acquire()).await.map_err(|_| Failure::Unavailable)?;
    let _turn = turn.map_err(Failure::internal)?;
    read(form, MAX_UPLOAD, picture::TOO_LONG).await
}

/// The form, unless it is longer than the limit, which `problem` says.
async fn read(form: Body, limit: usize, problem: &'static str) -> Result<Bytes, Failure> {
    let length = form.size_hint().lower();
    let read = if length > limit as u64 && length <= MAX_DISCARDED {
        discard(form).await;
        Err(ReadError::TooLong)
    } else {
        body::read(form, limit, BODY_TIMEOUT).await
    };
    read.map_err(|_| Failure::Invalid(text(problem).to_owned()))
}

/// Reads a form to its end and keeps nothing of it.
async fn discard(form: Body) {
    let mut chunks = form.into_data_stream();
    let _ = timeout(BODY_TIMEOUT, async { while let Some(Ok(_)) = chunks.next().await {} }).await;
}

/// The content of a file is entered in hexadecimal; that of a file which was not chosen is empty.
async fn parts(mut form: Multipart) -> Result<Entered, Failure> {
    let mut entered = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|_| incomplete())? {
        let (Some(name), is_file) = (field.name().map(str::to_owned), field.file_name().is_some()) else {
            return Err(incomplete());
        };
        let content = field.bytes().await.map_err(|_| incomplete())?;
        let value = match is_file {
            true => hex(&content),
            false => std::str::from_utf8(&content).map_err(|_| incomplete())?.trim().to_owned(),
        };
        entered.push((name, value));
    }
    Ok(Entered(entered))
}

fn incomplete() -> Failure {
    Failure::Invalid(text("The form is incomplete.").to_owned())
}
