//! Forms as browsers send them: one after the other in a text, or as parts if there is a file.

use axum::body::Bytes;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use foundation::crypto::hex;

use crate::app::App;
use crate::failure::Failure;
use crate::form::Entered;
use crate::texts::text;

const PARTS: &[u8] = b"multipart/form-data";

impl FromRequest<App> for Entered {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        if request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(PARTS)) {
            return parts(Multipart::from_request(request, app).await.map_err(|_| incomplete())?).await;
        }
        Ok(Self::parse(&Bytes::from_request(request, app).await.map_err(|_| incomplete())?))
    }
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
