//! Invoices and receipts as PDF, written by a few threads of their own.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::documents::{Fonts, Sheet};
use axum::body::Bytes;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit};
use foundation::error::Error;
use foundation::id::AccountId;
use tokio::task::spawn_blocking;

/// Documents written at once: each takes a processor for some milliseconds. An invoice has at most 100 lines.
const AT_ONCE: usize = 2;
const OF_ACCOUNT: usize = 1;
/// How long a request waits for its permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
const BUSY: &str = "too many documents are being written; nothing was done, and it is safe to retry";

pub(crate) struct Documents {
    folders: Vec<PathBuf>,
    /// Loaded for the first document.
    fonts: OnceLock<Option<Fonts>>,
    limit: FairConcurrencyLimit<AccountId>,
}

impl Documents {
    pub(crate) fn new(folders: Vec<PathBuf>) -> Self {
        let limit = FairConcurrencyLimit::new(ConcurrencyLimit::new(AT_ONCE, PERMIT_TIMEOUT, BUSY), |_| OF_ACCOUNT);
        Self { folders, fonts: OnceLock::new(), limit }
    }

    /// The PDF of a document of this account. `sheet`, with the logo, is loaded once the account has a permit.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many documents are being written, [`Error::Internal`] if there are no fonts, those of `sheet`.
    pub(super) async fn pdf(
        self: &Arc<Self>,
        account: AccountId,
        sheet: impl Future<Output = Result<Sheet, Error>>,
    ) -> Result<Vec<u8>, Error> {
        let permit = self.limit.acquire([account]).await?;
        let sheet = sheet.await?;
        let documents = Arc::clone(self);
        let pdf = spawn_blocking(move || {
            let _permit = permit;
            documents.write(&sheet)
        });
        pdf.await.map_err(|error| Error::internal(format!("a document was not written: {error}")))?
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

/// The response with a PDF, under this file name.
pub(super) fn response(pdf: Bytes, name: &str) -> Response {
    let disposition = format!("inline; filename=\"{name}.pdf\"");
    ([(CONTENT_TYPE, "application/pdf".to_owned()), (CONTENT_DISPOSITION, disposition)], pdf).into_response()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::JoinSet;
    use tokio::time::sleep;
    use uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn documents_of_an_account_keep_those_of_others_waiting_neither_to_load_nor_to_write() {
        let documents = Arc::new(Documents::new(Vec::new()));
        let account = |number| AccountId::from_uuid(Uuid::from_u128(number));
        let mut of_one = JoinSet::new();
        for _ in 0..3 {
            let documents = Arc::clone(&documents);
            of_one.spawn(async move { documents.pdf(account(1), pending()).await });
        }
        sleep(Duration::from_secs(1)).await;
        let loaded = documents.pdf(account(2), async { Err(Error::conflict("it is loaded")) }).await;
        assert!(matches!(loaded, Err(Error::Conflict(_))), "{loaded:?}");
        for _ in 0..2 {
            let waiting = of_one.join_next().await.expect("a document").expect("no panic");
            assert!(matches!(waiting, Err(Error::Busy(_))), "nothing is loaded before its permit: {waiting:?}");
        }
    }
}
