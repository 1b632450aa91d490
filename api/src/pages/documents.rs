//! Invoices and receipts as PDF, written by a few threads of their own.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::documents::{Fonts, Sheet};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use foundation::concurrency::ConcurrencyLimit;
use foundation::error::Error;
use tokio::task::spawn_blocking;

/// Documents written at once: each takes a processor for some milliseconds. An invoice has at most 100 lines.
const AT_ONCE: usize = 2;
/// How long a request waits for its permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
const BUSY: &str = "too many documents are being written; nothing was done, and it is safe to retry";

pub(crate) struct Documents {
    folders: Vec<PathBuf>,
    /// Loaded for the first document.
    fonts: OnceLock<Option<Fonts>>,
    limit: ConcurrencyLimit,
}

impl Documents {
    pub(crate) fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, fonts: OnceLock::new(), limit: ConcurrencyLimit::new(AT_ONCE, PERMIT_TIMEOUT, BUSY) }
    }

    /// The response with the PDF, under this file name.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many documents are being written, [`Error::Internal`] if there are no fonts.
    pub(super) async fn response(self: &Arc<Self>, sheet: Sheet, name: &str) -> Result<Response, Error> {
        let permit = self.limit.acquire().await?;
        let documents = Arc::clone(self);
        let pdf = spawn_blocking(move || {
            let _permit = permit;
            documents.write(&sheet)
        });
        let pdf = pdf.await.map_err(|error| Error::internal(format!("a document was not written: {error}")))??;
        let disposition = format!("inline; filename=\"{name}.pdf\"");
        Ok(([(CONTENT_TYPE, "application/pdf".to_owned()), (CONTENT_DISPOSITION, disposition)], pdf).into_response())
    }

    fn write(&self, sheet: &Sheet) -> Result<Vec<u8>, Error> {
        let fonts = self.fonts.get_or_init(|| {
            let loaded = Fonts::load(self.folders.clone());
            loaded.inspect_err(|error| tracing::error!(%error, "no document can be written; set FONTS_DIRS")).ok()
        });
        let fonts = fonts.as_ref().ok_or_else(|| Error::internal("there are no fonts"))?;
        sheet.pdf(fonts).map_err(|error| Error::internal(error.to_string()))
    }
}
